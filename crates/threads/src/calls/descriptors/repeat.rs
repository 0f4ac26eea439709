//! Repeated attempts: a call is tried without blocking, and then waits for readiness.

use crate::calls::descriptors::wait::{Ready, deadline, wait};
use crate::readiness::{records, transfer};
use crate::schedule::home::go_home;
use crate::system::flags::{
    self, SO_RCVTIMEO, SO_SNDTIMEO, SO_TYPE, SOCK_DGRAM, SOCK_STREAM, is_nonblocking,
};
use crate::system::sys;
use crate::thread::Thread;
use crate::waiting::key::{HUP, IN, NVAL, OUT, RDHUP, key};
use crate::waiting::table;

const MSG_DONTWAIT: usize = 0x40;

/// The flag for an attempt to receive. A socket known to be non-blocking needs no flag; if this is outdated, the call
/// blocks in the kernel.
pub(super) fn unless_blocking(descriptor: i32) -> usize {
    if records::is_nonblocking(descriptor) { 0 } else { MSG_DONTWAIT }
}

pub(super) const WOULD_BLOCK: isize = -(sys::EAGAIN as isize);
const MSG_NOSIGNAL: usize = 0x4000;
const SIGPIPE: u32 = 13;

/// Repeats an attempt that does not block until it returns something other than `EAGAIN`. `None` if the C library must
/// continue.
pub(super) fn repeat(
    thread: &Thread,
    descriptor: i32,
    interest: u32,
    timeout: usize,
    attempt: impl Fn() -> isize,
) -> Option<isize> {
    let attempt = || {
        records::begin_attempt(descriptor);
        attempt()
    };
    wait_for(thread, descriptor, interest, timeout, Some(attempt()), attempt)
}

/// As [`repeat`], for attempts to receive up to `length` bytes from a stream. The first attempt is omitted if the last
/// one took all bytes and no others have been reported.
pub(super) fn receive_part(
    thread: &Thread,
    descriptor: i32,
    length: usize,
    attempt: impl Fn() -> isize,
) -> Option<isize> {
    let attempt = || {
        records::begin_attempt(descriptor);
        let result = attempt();
        match result {
            part if part > 0 && (part as usize) < length => records::drained(descriptor),
            WOULD_BLOCK if records::is_nonblocking(descriptor) => records::drained(descriptor),
            // Other threads that wait for bytes receive the rest.
            part if part > 0
                && (records::is_plain(descriptor) || records::is_nonblocking(descriptor)) =>
            {
                table::wake(key(descriptor), usize::MAX);
            }
            _ => {}
        }
        result
    };
    let first = if records::is_drained(descriptor) { None } else { Some(attempt()) };
    wait_for(thread, descriptor, IN, SO_RCVTIMEO, first, attempt)
}

/// Waits for readiness and repeats the attempt while its result is `EAGAIN`. `first` is the result of the first one, unless
/// that was omitted.
fn wait_for(
    thread: &Thread,
    descriptor: i32,
    interest: u32,
    timeout: usize,
    first: Option<isize>,
    attempt: impl Fn() -> isize,
) -> Option<isize> {
    let mut is_omitted = first.is_none();
    let mut result = first.unwrap_or(WOULD_BLOCK);
    let mut limit = None;
    while result == WOULD_BLOCK {
        if limit.is_none() && !records::is_plain(descriptor) {
            if is_omitted {
                is_omitted = false;
                result = attempt();
                continue;
            }
            let own = records::own(descriptor);
            if records::is_nonblocking(descriptor) {
                break;
            }
            if is_nonblocking(descriptor) {
                if let Some(own) = own {
                    records::set_nonblocking(descriptor, own, flags::is_tcp(descriptor));
                }
                break;
            }
            limit = Some(deadline(descriptor, timeout));
            if let Some(own) = own {
                records::set_plain(descriptor, own, flags::is_plain_tcp(descriptor));
            }
        }
        is_omitted = false;
        match wait(thread, descriptor, interest, limit.flatten()) {
            Ready::Retry => {
                result = attempt();
                if result == WOULD_BLOCK && interest == IN && is_shut_down(descriptor) {
                    return None;
                }
            }
            Ready::TimedOut => break,
            Ready::Interrupted => return Some(-(sys::EINTR as isize)),
            Ready::Closed => return Some(-(sys::EBADF as isize)),
            Ready::Natively | Ready::Unsupported => return None,
        }
    }
    Some(result)
}

/// Whether nothing more can be received. A blocking call reports the end of a datagram socket, but an attempt does not.
fn is_shut_down(descriptor: i32) -> bool {
    descriptor_events(descriptor, RDHUP) & (RDHUP | HUP) != 0
}

/// Sends everything, as a blocking call does; a failure after a part reports the part. If `flags` are given, the data
/// goes to the peer of the socket, so the polling thread may continue the transfer.
pub(super) fn repeat_until_sent(
    thread: &Thread,
    descriptor: i32,
    (data, length): (*const u8, usize),
    flags: Option<usize>,
    attempt: impl Fn(usize) -> isize,
) -> Option<isize> {
    let mut sent = 0;
    let mut result = attempt(0);
    let blocks = result == WOULD_BLOCK || (result >= 0 && (result as usize) < length);
    if !blocks || (!records::is_plain(descriptor) && is_nonblocking(descriptor)) {
        return Some(result);
    }
    let is_plain = records::is_plain(descriptor);
    let deadline = if is_plain { None } else { deadline(descriptor, SO_SNDTIMEO) };
    // Only streams can be sent in parts.
    let is_stream = || is_plain || flags::option(descriptor, SO_TYPE) == Some(SOCK_STREAM);
    let flags = flags.filter(|_| length > 0 && is_stream());
    loop {
        if result > 0 {
            sent += result as usize;
        }
        if (result >= 0 && sent >= length) || (result < 0 && result != WOULD_BLOCK) {
            break;
        }
        let has_begun = flags.is_some_and(|flags| {
            transfer::begin(thread, data.wrapping_add(sent), length - sent, flags)
        });
        let ready = wait(thread, descriptor, OUT, deadline);
        if has_begun {
            sent = length - transfer::end(thread);
        }
        result = WOULD_BLOCK;
        match ready {
            _ if length > 0 && sent == length => break,
            Ready::Retry => {
                result = attempt(sent);
                if result == WOULD_BLOCK && flags::option(descriptor, SO_TYPE) == Some(SOCK_DGRAM) {
                    // The queue of the receiver is full, which is no event of this socket.
                    go_home(thread);
                    return None;
                }
            }
            Ready::TimedOut => break,
            Ready::Interrupted if sent == 0 => return Some(-(sys::EINTR as isize)),
            Ready::Closed if sent == 0 => return Some(-(sys::EBADF as isize)),
            Ready::Natively | Ready::Unsupported if sent == 0 => return None,
            Ready::Interrupted | Ready::Closed | Ready::Natively | Ready::Unsupported => break,
        }
    }
    Some(if sent > 0 { sent as isize } else { result })
}

/// Tries to send the rest after `sent` bytes to a socket. `send` gets the flags. As in the kernel, the end of the
/// connection after a part causes no signal, and is reported by the program's next call. An error event alone may be a
/// message about earlier data (`MSG_ERRQUEUE`).
pub(super) fn send_part(
    thread: &Thread,
    descriptor: i32,
    (sent, flags): (usize, i32),
    send: impl FnOnce(usize) -> isize,
) -> isize {
    if sent > 0 && descriptor_events(descriptor, 0) & (HUP | NVAL) != 0 {
        return -(sys::EPIPE as isize);
    }
    let is_quiet = sent > 0 || blocks_pipe_signal(thread);
    let no_signal = if is_quiet { MSG_NOSIGNAL } else { 0 };
    send(flags as usize | MSG_DONTWAIT | no_signal)
}

/// Whether the thread blocks SIGPIPE and runs on a carrier, which does not block it.
pub(super) fn blocks_pipe_signal(thread: &Thread) -> bool {
    thread.is_hollow() && thread.mask.get() & sys::bit(SIGPIPE) != 0
}

/// The events of a descriptor, of `interest` and errors, without waiting.
pub(super) fn descriptor_events(descriptor: i32, interest: u32) -> u32 {
    let mut request = [descriptor as u32, interest];
    sys::call(sys::SYS_POLL, [request.as_mut_ptr() as usize, 1, 0, 0, 0, 0]);
    request[1] >> 16
}
