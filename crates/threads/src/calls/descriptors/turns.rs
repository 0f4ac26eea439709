//! Calls on blocking descriptors that cannot be tried without blocking: the descriptor is polled first, and the call follows
//! when it is ready.
//!
//! Threads on carriers take turns, so that none of them takes the connection or the bytes between poll and call. If
//! another process does, the carrier blocks, and the monitor sends other threads home.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::calls::descriptors::repeat::descriptor_events;
use crate::calls::descriptors::wait::{Ready, deadline, wait};
use crate::schedule::home::go_home;
use crate::system::flags::is_nonblocking;
use crate::system::sys::{self, FileKind};
use crate::thread::Thread;
use crate::waiting::key::IN;

/// The result of an attempt on a file that does not support attempts.
pub(super) const NOT_SUPPORTED: isize = -(sys::EOPNOTSUPP as isize);

/// Makes a call that receives, once the descriptor is ready, or at once if `waits` returns false. `timeout` is the
/// socket option with the limit, or 0.
pub(super) fn when_ready(
    thread: &Thread,
    descriptor: i32,
    timeout: usize,
    waits: impl Fn() -> bool,
    native: impl Fn() -> isize,
) -> isize {
    if is_nonblocking(descriptor) {
        return native();
    }
    let mut limit = None;
    loop {
        let turn = Turn::take(thread, descriptor);
        if turn.is_some() && descriptor_events(descriptor, IN) != 0 {
            return native();
        }
        drop(turn);
        if limit.is_none() {
            if !waits() {
                return native();
            }
            limit = Some(deadline(descriptor, timeout));
        }
        match wait(thread, descriptor, IN, limit.flatten()) {
            Ready::Retry => {}
            Ready::TimedOut => return sys::fail(sys::EAGAIN),
            Ready::Interrupted => return sys::fail(sys::EINTR),
            Ready::Closed => return sys::fail(sys::EBADF),
            Ready::Natively | Ready::Unsupported => return native(),
        }
    }
}

/// Reads from a file that supports no attempts, such as a named pipe.
pub(super) fn receive_unattempted(
    thread: &Thread,
    descriptor: i32,
    native: impl Fn() -> isize,
) -> isize {
    match sys::kind_of_file(descriptor) {
        FileKind::Pipe | FileKind::Other => when_ready(thread, descriptor, 0, || true, native),
        // A terminal may complete a call although it is not ready.
        FileKind::Device => {
            if !is_nonblocking(descriptor) {
                go_home(thread);
            }
            native()
        }
        FileKind::Stored => native(),
    }
}

/// A bit for each descriptor at which a thread on a carrier polls and receives. Those from 65,536 on share bits.
static TURNS: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// The exclusive right to poll and receive at a descriptor, until it is dropped. Signals are blocked on carriers, so a
/// handler cannot wait for a turn that its own thread holds.
struct Turn(Option<(&'static AtomicU64, u64)>);

impl Turn {
    /// A thread at home needs no turn, because it may block.
    fn take(thread: &Thread, descriptor: i32) -> Option<Turn> {
        if !thread.is_hollow() {
            return Some(Turn(None));
        }
        let (turns, bit) = (&TURNS[descriptor as usize / 64 % TURNS.len()], 1 << (descriptor % 64));
        let is_free = turns.fetch_or(bit, Ordering::Acquire) & bit == 0;
        is_free.then_some(Turn(Some((turns, bit))))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.inspect(|(turns, bit)| _ = turns.fetch_and(!bit, Ordering::Release));
    }
}

/// Ends all turns, in a child process.
pub(crate) fn reset() {
    TURNS.iter().for_each(|turns| turns.store(0, Ordering::Relaxed));
}
