//! Calls on sockets: each is tried without blocking, then waits for readiness.
//!
//! # Safety
//!
//! The caller passes memory that the C library may read and write.

use crate::calls::descriptors::repeat::{
    receive_part, repeat, repeat_until_sent, send_part, unless_blocking,
};
use crate::calls::descriptors::turns::when_ready;
use crate::calls::descriptors::vectors::receive_all;
use crate::calls::descriptors::wait::convertible;
use crate::readiness::records;
use crate::schedule::home::go_home;
use crate::system::flags::{
    self, SO_ACCEPTCONN, SO_RCVTIMEO, SO_TYPE, SOCK_STREAM, is_nonblocking,
};
use crate::system::{real, sys};
use crate::thread::Thread;
use crate::waiting::key::IN;

const MSG_DONTWAIT: i32 = 0x40;
/// The flags with which a call that has none is executed.
const PLAIN: usize = MSG_DONTWAIT as usize;
const MSG_WAITALL: i32 = 0x100;
const MSG_OOB: i32 = 1;
const MSG_ERRQUEUE: i32 = 0x2000;
/// Flags of calls to receive that return at once.
pub(super) const NEVER_WAITS: i32 = MSG_DONTWAIT | MSG_OOB | MSG_ERRQUEUE;
/// A call to send with this flag first connects the socket, and waits until it is connected.
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

/// Whether calls to receive from the socket wait for several bytes (`SO_RCVLOWAT`). Such calls wait at home.
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

/// `accept` on a blocking socket has no flag that makes one call non-blocking, so it is called when the socket is ready.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn accept4(descriptor: i32, address: *mut u8, size: *mut u32, flags: i32) -> i32 {
    let native = || {
        let accepted = unsafe { real::accept4(descriptor, address, size, flags) };
        records::open(accepted);
        accepted
    };
    // Without a listening socket, or a free descriptor for the connection, the call fails at once.
    let waits =
        || flags::option(descriptor, SO_ACCEPTCONN) == Some(1) && sys::has_free_descriptor();
    let Some(thread) = convertible() else { return native() };
    when_ready(thread, descriptor, SO_RCVTIMEO, waits, || native() as isize) as i32
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

aliases! { __send = send; __connect = connect; }
