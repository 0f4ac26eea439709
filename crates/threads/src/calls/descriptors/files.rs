//! `read`, `write`, `close` and `fcntl`, whose descriptors may be of any kind.
//!
//! # Safety
//!
//! The caller passes memory that the C library may read and write.

use crate::calls::descriptors::pipes;
use crate::calls::descriptors::pipes::is_refused;
use crate::calls::descriptors::repeat::{
    WOULD_BLOCK, receive_part, repeat, repeat_until_sent, send_part, unless_blocking,
};
use crate::calls::descriptors::sockets::{connects, has_minimum};
use crate::calls::descriptors::turns::{NOT_SUPPORTED, receive_unattempted};
use crate::calls::descriptors::wait::convertible;
use crate::readiness::{poller, records, watch};
use crate::schedule::home::go_home;
use crate::system::{real, sys};
use crate::thread::current;
use crate::waiting::key::{IN, key};
use crate::waiting::table;

const RWF_NOWAIT: usize = 8;
const NOT_A_SOCKET: isize = -(sys::ENOTSOCK as isize);

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(super) unsafe extern "C" fn read(descriptor: i32, buffer: *mut u8, length: usize) -> isize {
    let native = || unsafe { real::read(descriptor, buffer, length) };
    let Some(thread) = convertible().filter(|_| length > 0) else { return native() };
    if has_minimum(thread, descriptor) {
        return native();
    }
    let vector = [buffer as usize, length];
    let receive = || {
        let flag = unless_blocking(descriptor);
        sys::call(sys::SYS_RECVFROM, [descriptor as usize, buffer as usize, length, flag, 0, 0])
    };
    let preadv =
        [descriptor as usize, vector.as_ptr() as usize, 1, usize::MAX, usize::MAX, RWF_NOWAIT];
    let mut result = receive_part(thread, descriptor, length, receive);
    if result == Some(NOT_A_SOCKET) {
        result = repeat(thread, descriptor, IN, 0, || sys::call(sys::SYS_PREADV2, preadv));
        if result == Some(NOT_SUPPORTED) {
            return receive_unattempted(thread, descriptor, native);
        }
        result = result.filter(|result| !is_refused(*result));
        // A file without readiness waits for its storage even if it is opened with O_NONBLOCK.
        if result == Some(WOULD_BLOCK) && sys::is_stored(descriptor) {
            return native();
        }
        if let Some(part) = result.filter(|part| (1..length as isize).contains(part))
            && sys::is_stored(descriptor)
        {
            // The rest of the file is not in memory.
            let rest = unsafe {
                real::read(descriptor, buffer.add(part as usize), length - part as usize)
            };
            return part + rest.max(0);
        }
    }
    result.map_or_else(native, sys::result)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn write(descriptor: i32, buffer: *const u8, length: usize) -> isize {
    let native = || unsafe { real::write(descriptor, buffer, length) };
    let Some(thread) = convertible().filter(|_| length > 0) else { return native() };
    let attempt = |sent: usize| {
        let (rest, left) = (buffer as usize + sent, length - sent);
        let send =
            |flags| sys::call(sys::SYS_SENDTO, [descriptor as usize, rest, left, flags, 0, 0]);
        send_part(thread, descriptor, (sent, 0), send)
    };
    let result = repeat_until_sent(thread, descriptor, (buffer, length), Some(0), attempt);
    let result = match result {
        Some(NOT_A_SOCKET) => pipes::write(thread, descriptor, (buffer, length)),
        result => result.filter(|result| !connects(thread, descriptor, *result)),
    };
    result.map_or_else(native, sys::result)
}

/// Threads that wait for the descriptor find that it is closed.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn close(descriptor: i32) -> i32 {
    if poller::is_own(descriptor) {
        return sys::fail(sys::EBADF) as i32;
    }
    watch::close(descriptor);
    watch::end_waits(descriptor);
    let result = unsafe { real::close(descriptor) };
    table::wake(key(descriptor), usize::MAX);
    result
}

const F_DUPFD: i32 = 0;
const F_SETFL: i32 = 4;
const F_DUPFD_CLOEXEC: i32 = 1030;
const F_SETLKW: i32 = 7;
const F_OFD_SETLKW: i32 = 38;

/// Commands other than those that wait for a lock do not depend on the kernel thread.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn fcntl(descriptor: i32, command: i32, argument: usize) -> i32 {
    if command == F_SETLKW || command == F_OFD_SETLKW {
        go_home(current());
    }
    if matches!(command, F_DUPFD | F_DUPFD_CLOEXEC) {
        watch::share(descriptor);
    }
    let result = unsafe { real::fcntl(descriptor, command, argument) };
    if command == F_SETFL {
        records::forget_flags(descriptor);
    }
    result
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn fcntl64(descriptor: i32, command: i32, argument: usize) -> i32 {
    unsafe { fcntl(descriptor, command, argument) }
}

aliases! { __read = read; __write = write; __close = close; __fcntl = fcntl; }
