//! Writes to pipes: each is tried without blocking (`RWF_NOWAIT`), then waits until the pipe accepts more.

use crate::calls::descriptors::repeat::{blocks_pipe_signal, repeat_until_sent};
use crate::schedule::home::stay_home;
use crate::system::sys;
use crate::thread::Thread;

const RWF_NOWAIT: usize = 8;
/// The current position of the file.
const CURRENT_POSITION: usize = usize::MAX;

/// Writes everything to a descriptor that is not a socket. Returns `None` if the C library must do it.
pub(super) fn write(
    thread: &Thread,
    descriptor: i32,
    (data, length): (*const u8, usize),
) -> Option<isize> {
    repeat(thread, descriptor, length, |sent| {
        let vector = [data as usize + sent, length - sent];
        attempt(descriptor, vector.as_ptr() as usize, 1)
    })
}

/// Tries to write buffers.
pub(super) fn attempt(descriptor: i32, buffers: usize, count: usize) -> isize {
    sys::call(
        sys::SYS_PWRITEV2,
        [descriptor as usize, buffers, count, CURRENT_POSITION, CURRENT_POSITION, RWF_NOWAIT],
    )
}

/// Repeats an attempt until `length` bytes are written. An attempt also writes up to `PIPE_BUF` bytes atomically.
pub(super) fn repeat(
    thread: &Thread,
    descriptor: i32,
    length: usize,
    attempt: impl Fn(usize) -> isize,
) -> Option<isize> {
    if !thread.is_convertible() || !sys::is_pipe(descriptor) {
        return None;
    }
    let attempt = |sent| {
        if blocks_pipe_signal(thread) {
            // If the pipe has no reader, the carrier would get SIGPIPE although the thread blocks it.
            stay_home(thread);
        }
        attempt(sent)
    };
    let result = repeat_until_sent(thread, descriptor, (core::ptr::null(), length), None, attempt);
    result.filter(|result| !is_refused(*result))
}

/// Whether the C library must repeat an attempt: the file supports no attempts, such as pipes with kernels before 6.4,
/// or the attempt failed without an effect.
pub(super) fn is_refused(result: isize) -> bool {
    const FINAL: [i32; 3] = [sys::EAGAIN, sys::EINTR, sys::EPIPE];
    result < 0 && !FINAL.contains(&(-result as i32))
}
