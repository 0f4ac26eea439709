//! Calls on sockets: each is tried without blocking, then waits for readiness.
//!
//! # Safety
//!
//! The caller passes memory that the C library may read and write.

use super::descriptors::{
    Ready, SO_RCVTIMEO, SO_SNDTIMEO, convertible, is_nonblocking, socket_deadline, wait,
};
use super::vectors::receive_all;
use crate::home::go_home;
use crate::poller::{IN, OUT};
use crate::thread::Thread;
use crate::{real, sys, transfer};

const MSG_DONTWAIT: i32 = 0x40;
const MSG_NOSIGNAL: i32 = 0x4000;
const MSG_WAITALL: i32 = 0x100;
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
    if flags & (MSG_WAITALL | MSG_DONTWAIT) == MSG_WAITALL && from.is_null() {
        return receive_all(descriptor, buffer, length, flags).map_or_else(native, sys::result);
    }
    let Some(thread) = convertible().filter(|_| flags & MSG_DONTWAIT == 0) else { return native() };
    let flags = (flags | MSG_DONTWAIT) as usize;
    let arguments =
        [descriptor as usize, buffer as usize, length, flags, from as usize, size as usize];
    let attempt = || sys::call(sys::SYS_RECVFROM, arguments);
    repeat(thread, descriptor, IN, SO_RCVTIMEO, attempt).map_or_else(native, sys::result)
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
    let all = (flags | MSG_DONTWAIT | quiet(thread)) as usize;
    let attempt = |sent: usize| {
        let rest = [
            descriptor as usize,
            buffer as usize + sent,
            length - sent,
            all,
            to as usize,
            size as usize,
        ];
        sys::call(sys::SYS_SENDTO, rest)
    };
    let flags = to.is_null().then_some(all);
    repeat_until_sent(thread, descriptor, (buffer, length), flags, attempt)
        .map_or_else(native, sys::result)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn accept(descriptor: i32, address: *mut u8, size: *mut u32) -> i32 {
    unsafe { accept4(descriptor, address, size, 0) }
}

/// A listening socket is polled first: `accept` on a blocking socket has no flag that makes one call non-blocking.
/// Another thread may take the connection in between; the carrier then blocks, and the monitor sends others home.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn accept4(descriptor: i32, address: *mut u8, size: *mut u32, flags: i32) -> i32 {
    let native = || unsafe { real::accept4(descriptor, address, size, flags) };
    let Some(thread) = convertible() else { return native() };
    if is_nonblocking(descriptor) {
        return native();
    }
    loop {
        let mut request = [descriptor as u32, 1];
        let ready = sys::call(sys::SYS_POLL, [request.as_mut_ptr() as usize, 1, 0, 0, 0, 0]);
        if ready != 0 {
            return native();
        }
        match wait(thread, descriptor, IN, socket_deadline(descriptor, SO_RCVTIMEO)) {
            Ready::Retry => {}
            Ready::TimedOut => return sys::fail(sys::EAGAIN) as i32,
            Ready::Interrupted => return sys::fail(sys::EINTR) as i32,
            Ready::Natively | Ready::Unsupported => return native(),
        }
    }
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
