//! Repeated attempts: a call is tried without blocking, and then waits for readiness.

use crate::calls::descriptors::wait::{Ready, SO_SNDTIMEO, is_nonblocking, socket_deadline, wait};
use crate::readiness::transfer;
use crate::system::sys;
use crate::thread::Thread;
use crate::waiting::key::OUT;

const MSG_NOSIGNAL: i32 = 0x4000;
const SIGPIPE: u32 = 13;

/// Repeats an attempt that does not block until it returns something other than `EAGAIN`. `None` if the C library is to
/// continue.
pub(super) fn repeat(
    thread: &Thread,
    descriptor: i32,
    interest: u32,
    timeout: usize,
    attempt: impl Fn() -> isize,
) -> Option<isize> {
    let mut result = attempt();
    if result != -(sys::EAGAIN as isize) || is_nonblocking(descriptor) {
        return Some(result);
    }
    let deadline = if timeout == 0 { None } else { socket_deadline(descriptor, timeout) };
    while result == -(sys::EAGAIN as isize) {
        match wait(thread, descriptor, interest, deadline) {
            Ready::Retry => result = attempt(),
            Ready::TimedOut => break,
            Ready::Interrupted => return Some(-(sys::EINTR as isize)),
            Ready::Natively | Ready::Unsupported => return None,
        }
    }
    Some(result)
}

/// Sends everything, as a blocking call does; a failure after a part reports the part. With `flags`, the data is sent to
/// the peer of the socket, so the polling thread may continue.
pub(super) fn repeat_until_sent(
    thread: &Thread,
    descriptor: i32,
    (data, length): (*const u8, usize),
    flags: Option<usize>,
    attempt: impl Fn(usize) -> isize,
) -> Option<isize> {
    let mut sent = 0;
    let mut result = attempt(0);
    let blocks = result == -(sys::EAGAIN as isize) || (result >= 0 && (result as usize) < length);
    if !blocks || is_nonblocking(descriptor) {
        return Some(result);
    }
    loop {
        if result > 0 {
            sent += result as usize;
        }
        if (result >= 0 && sent >= length) || (result < 0 && result != -(sys::EAGAIN as isize)) {
            break;
        }
        let deadline = socket_deadline(descriptor, SO_SNDTIMEO);
        if let Some(flags) = flags {
            transfer::begin(thread, data.wrapping_add(sent), length - sent, flags);
        }
        let ready = wait(thread, descriptor, OUT, deadline);
        sent = length - transfer::end(thread, length - sent);
        result = -(sys::EAGAIN as isize);
        match ready {
            _ if sent == length => break,
            Ready::Retry => result = attempt(sent),
            Ready::TimedOut => break,
            Ready::Interrupted if sent == 0 => return Some(-(sys::EINTR as isize)),
            Ready::Natively | Ready::Unsupported if sent == 0 => return None,
            Ready::Interrupted | Ready::Natively | Ready::Unsupported => break,
        }
    }
    Some(if sent > 0 { sent as isize } else { result })
}

/// The flag that suppresses SIGPIPE if the program blocks it: carriers do not.
pub(super) fn quiet(thread: &Thread) -> i32 {
    let mask = thread.mask.get();
    if thread.is_hollow() && mask & sys::bit(SIGPIPE) != 0 { MSG_NOSIGNAL } else { 0 }
}
