//! Calls on sockets: each is tried without blocking, then waits for readiness.
//!
//! # Safety
//!
//! The caller passes memory that the C library may read and write.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::calls::descriptors::repeat::{
    descriptor_events, receive_part, repeat, repeat_until_sent, send_part, unless_blocking,
};
use crate::calls::descriptors::vectors::receive_all;
use crate::calls::descriptors::wait::{Ready, convertible, deadline, wait};
use crate::readiness::records;
use crate::schedule::home::go_home;
use crate::system::flags::{self, SO_RCVTIMEO, SO_TYPE, SOCK_STREAM, is_nonblocking};
use crate::system::{real, sys};
use crate::thread::Thread;
use crate::waiting::key::IN;

const MSG_DONTWAIT: i32 = 0x40;
/// The flags of a call of the program without flags.
const PLAIN: usize = MSG_DONTWAIT as usize;
const MSG_WAITALL: i32 = 0x100;
const MSG_OOB: i32 = 1;
const MSG_ERRQUEUE: i32 = 0x2000;
/// Flags of calls to receive that return at once.
pub(super) const NEVER_WAITS: i32 = MSG_DONTWAIT | MSG_OOB | MSG_ERRQUEUE;
/// The call connects the socket, for which it waits.
pub(super) const MSG_FASTOPEN: i32 = 0x2000_0000;

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(super) unsafe extern "C" fn recv(
    descriptor: i32,
    buffer: *mut u8,
    length: usize,
    flags: i32,
) -> isize {
    unsafe {
        recvfrom(descriptor, buffer, length, flags, core::ptr::null_mut(), core::ptr::null_mut())
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(super) unsafe extern "C" fn recvfrom(
    descriptor: i32,
    buffer: *mut u8,
    length: usize,
    flags: i32,
    from: *mut u8,
    size: *mut u32,
) -> isize {
    let native = || unsafe { real::recvfrom(descriptor, buffer, length, flags, from, size) };
    let Some(thread) = convertible().filter(|_| flags & NEVER_WAITS == 0) else { return native() };
    if has_minimum(thread, descriptor) {
        return native();
    }
    if flags & MSG_WAITALL != 0 {
        if from.is_null() {
            return receive_all(descriptor, buffer, length, flags).map_or_else(native, sys::result);
        }
        if flags::option(descriptor, SO_TYPE) == Some(SOCK_STREAM) {
            go_home(thread);
            return native();
        }
    }
    let flags = (flags | MSG_DONTWAIT) as usize;
    let arguments =
        [descriptor as usize, buffer as usize, length, flags, from as usize, size as usize];
    let attempt = || sys::call(sys::SYS_RECVFROM, arguments);
    let receive = || {
        let mut arguments = arguments;
        arguments[3] = unless_blocking(descriptor);
        sys::call(sys::SYS_RECVFROM, arguments)
    };
    let result = match flags {
        PLAIN => receive_part(thread, descriptor, length, receive),
        _ => repeat(thread, descriptor, IN, SO_RCVTIMEO, attempt),
    };
    result.map_or_else(native, sys::result)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn send(descriptor: i32, buffer: *const u8, length: usize, flags: i32) -> isize {
    unsafe { sendto(descriptor, buffer, length, flags, core::ptr::null(), 0) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn sendto(
    descriptor: i32,
    buffer: *const u8,
    length: usize,
    flags: i32,
    to: *const u8,
    size: u32,
) -> isize {
    let native = || unsafe { real::sendto(descriptor, buffer, length, flags, to, size) };
    let Some(thread) = convertible().filter(|_| flags & MSG_DONTWAIT == 0) else { return native() };
    if flags & MSG_FASTOPEN != 0 {
        go_home(thread);
        return native();
    }
    let attempt = |sent: usize| {
        let (rest, left) = (buffer as usize + sent, length - sent);
        let send = |flags| {
            let arguments = [descriptor as usize, rest, left, flags, to as usize, size as usize];
            sys::call(sys::SYS_SENDTO, arguments)
        };
        send_part(thread, descriptor, (sent, flags), send)
    };
    let flags = to.is_null().then_some(flags as usize);
    repeat_until_sent(thread, descriptor, (buffer, length), flags, attempt)
        .filter(|result| !connects(thread, descriptor, *result))
        .map_or_else(native, sys::result)
}

/// Whether an attempt to send has begun to connect (`TCP_FASTOPEN_CONNECT`) a blocking socket. The thread then waits at home.
pub(super) fn connects(thread: &Thread, descriptor: i32, result: isize) -> bool {
    let connects = result == -(sys::EINPROGRESS as isize) && !is_nonblocking(descriptor);
    if connects {
        go_home(thread);
    }
    connects
}

/// Whether a call to receive from the socket waits for several bytes (`SO_RCVLOWAT`), which it does at home.
pub(super) fn has_minimum(thread: &Thread, descriptor: i32) -> bool {
    let has = flags::has_minimum(descriptor);
    if has {
        go_home(thread);
    }
    has
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn accept(descriptor: i32, address: *mut u8, size: *mut u32) -> i32 {
    unsafe { accept4(descriptor, address, size, 0) }
}

/// A listening socket is polled first: `accept` on a blocking socket has no flag that makes one call non-blocking.
/// Threads on carriers take turns, so that none of them takes the connection in between. Another process may; the carrier
/// then blocks, and the monitor sends others home.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn accept4(descriptor: i32, address: *mut u8, size: *mut u32, flags: i32) -> i32 {
    let native = || {
        let accepted = unsafe { real::accept4(descriptor, address, size, flags) };
        records::open(accepted);
        accepted
    };
    let Some(thread) = convertible() else { return native() };
    if is_nonblocking(descriptor) {
        return native();
    }
    loop {
        let turn = Turn::take(thread, descriptor);
        if turn.is_some() && has_connection(descriptor) {
            return native();
        }
        drop(turn);
        match wait(thread, descriptor, IN, deadline(descriptor, SO_RCVTIMEO)) {
            Ready::Retry => {}
            Ready::TimedOut => return sys::fail(sys::EAGAIN) as i32,
            Ready::Interrupted => return sys::fail(sys::EINTR) as i32,
            Ready::Closed => return sys::fail(sys::EBADF) as i32,
            Ready::Natively | Ready::Unsupported => return native(),
        }
    }
}

/// Whether `accept` would return at once.
fn has_connection(descriptor: i32) -> bool {
    descriptor_events(descriptor, IN) != 0
}

/// A bit for each descriptor at which a thread on a carrier polls and accepts. Those from 65,536 on share bits.
static TURNS: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// The right to poll and accept at a descriptor, until it is dropped. Signals are blocked on carriers, so no handler can
/// need a turn that its own thread has.
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

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn sendfile(socket: i32, file: i32, offset: *mut i64, length: usize) -> isize {
    go_home_if_blocking(socket);
    unsafe { real::sendfile(socket, file, offset, length) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn sendfile64(socket: i32, file: i32, offset: *mut i64, length: usize) -> isize {
    unsafe { sendfile(socket, file, offset, length) }
}

/// Brings a thread home for a call that may wait for a blocking descriptor.
fn go_home_if_blocking(descriptor: i32) {
    if let Some(thread) = convertible()
        && thread.is_hollow()
        && !is_nonblocking(descriptor)
    {
        go_home(thread);
    }
}

/// No flag makes one call non-blocking, so a blocking socket connects at home.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn connect(descriptor: i32, address: *const u8, size: u32) -> i32 {
    go_home_if_blocking(descriptor);
    unsafe { real::connect(descriptor, address, size) }
}
