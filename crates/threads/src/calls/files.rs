//! `read`, `write`, `poll`, `epoll_wait` and `close`, whose descriptors may be of any kind.
//!
//! # Safety
//!
//! The caller passes memory that the C library may read and write.

use super::descriptors::{Ready, SO_RCVTIMEO, convertible, is_nonblocking, wait};
use super::signals::must_return;
use super::sockets::{quiet, repeat, repeat_until_sent};
use crate::home::stay_home;
use crate::poller::{self, IN};
use crate::thread::current;
use crate::{real, sys, table};

const MSG_DONTWAIT: usize = 0x40;
const RWF_NOWAIT: usize = 8;
const NOT_A_SOCKET: isize = -(sys::ENOTSOCK as isize);

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn read(descriptor: i32, buffer: *mut u8, length: usize) -> isize {
    let native = || unsafe { real::read(descriptor, buffer, length) };
    let Some(thread) = convertible().filter(|_| length > 0) else { return native() };
    let vector = [buffer as usize, length];
    let receive = [descriptor as usize, buffer as usize, length, MSG_DONTWAIT, 0, 0];
    let preadv =
        [descriptor as usize, vector.as_ptr() as usize, 1, usize::MAX, usize::MAX, RWF_NOWAIT];
    let mut result =
        repeat(thread, descriptor, IN, SO_RCVTIMEO, || sys::call(sys::SYS_RECVFROM, receive));
    if result == Some(NOT_A_SOCKET) {
        result = repeat(thread, descriptor, IN, 0, || sys::call(sys::SYS_PREADV2, preadv));
        // The file supports no attempts.
        result = result.filter(|result| *result >= 0 || *result == -(sys::EAGAIN as isize));
    }
    result.map_or_else(native, sys::result)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn write(descriptor: i32, buffer: *const u8, length: usize) -> isize {
    let native = || unsafe { real::write(descriptor, buffer, length) };
    let Some(thread) = convertible().filter(|_| length > 0) else { return native() };
    let flags = MSG_DONTWAIT | quiet(thread) as usize;
    let result = repeat_until_sent(thread, descriptor, (buffer, length), Some(flags), |sent| {
        sys::call(
            sys::SYS_SENDTO,
            [descriptor as usize, buffer as usize + sent, length - sent, flags, 0, 0],
        )
    });
    match result {
        // A pipe without a reader would signal the carrier although the thread blocks the signal.
        Some(NOT_A_SOCKET) if quiet(thread) != 0 => stay_home(thread),
        Some(NOT_A_SOCKET) => {}
        Some(result) => return sys::result(result),
        None => {}
    }
    native()
}

/// One descriptor is converted; a thread that polls several runs at home from then on.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn poll(descriptors: *mut u8, count: u64, timeout: i32) -> i32 {
    let Some(thread) = convertible().filter(|_| timeout != 0) else {
        return unsafe { real::poll(descriptors, count, timeout) };
    };
    let (descriptor, events) = match count {
        1 => unsafe { (descriptors.cast::<i32>().read(), descriptors.add(4).cast::<u16>().read()) },
        _ => (-1, 0),
    };
    if descriptor < 0 {
        stay_home(thread);
        return unsafe { real::poll(descriptors, count, timeout) };
    }
    let deadline = deadline(timeout);
    loop {
        let ready = unsafe { real::poll(descriptors, count, 0) };
        if ready != 0 {
            return ready;
        }
        match wait(thread, descriptor, u32::from(events), deadline) {
            Ready::Retry => {}
            Ready::TimedOut => return unsafe { real::poll(descriptors, count, 0) },
            // A handler interrupts these calls even with SA_RESTART.
            Ready::Interrupted => return sys::fail(sys::EINTR) as i32,
            Ready::Natively if must_return(thread, false) => return sys::fail(sys::EINTR) as i32,
            Ready::Natively | Ready::Unsupported => {
                stay_home(thread);
                return unsafe { real::poll(descriptors, count, remaining(deadline)) };
            }
        }
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn epoll_wait(epoll: i32, events: *mut u8, count: i32, timeout: i32) -> i32 {
    let Some(thread) = convertible().filter(|_| timeout != 0) else {
        return unsafe { real::epoll_wait(epoll, events, count, timeout) };
    };
    let deadline = deadline(timeout);
    loop {
        let ready = unsafe { real::epoll_wait(epoll, events, count, 0) };
        if ready != 0 {
            return ready;
        }
        match wait(thread, epoll, IN, deadline) {
            Ready::Retry => {}
            Ready::TimedOut => return unsafe { real::epoll_wait(epoll, events, count, 0) },
            // A handler interrupts these calls even with SA_RESTART.
            Ready::Interrupted => return sys::fail(sys::EINTR) as i32,
            Ready::Natively if must_return(thread, false) => return sys::fail(sys::EINTR) as i32,
            Ready::Natively | Ready::Unsupported => {
                stay_home(thread);
                return unsafe { real::epoll_wait(epoll, events, count, remaining(deadline)) };
            }
        }
    }
}

/// The deadline of a timeout in milliseconds; negative ones are infinite.
fn deadline(timeout: i32) -> Option<u64> {
    let timeout = u64::try_from(timeout).ok()?;
    Some(sys::now().saturating_add(timeout * 1_000_000))
}

fn remaining(deadline: Option<u64>) -> i32 {
    let left =
        |at: u64| at.saturating_sub(sys::now()).div_ceil(1_000_000).min(i32::MAX as u64) as i32;
    deadline.map_or(-1, left)
}

/// Threads that wait for the descriptor try again and find it closed.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn close(descriptor: i32) -> i32 {
    let result = unsafe { real::close(descriptor) };
    table::wake(poller::key(descriptor), usize::MAX);
    result
}

const F_SETLKW: i32 = 7;
const F_OFD_SETLKW: i32 = 38;

/// Commands other than those that wait for a lock do not depend on the kernel thread.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn fcntl(descriptor: i32, command: i32, argument: usize) -> i32 {
    if command == F_SETLKW || command == F_OFD_SETLKW {
        stay_home(current());
    }
    unsafe { real::fcntl(descriptor, command, argument) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn fcntl64(descriptor: i32, command: i32, argument: usize) -> i32 {
    unsafe { fcntl(descriptor, command, argument) }
}

/// Brings a thread home for good before a call that may wait for a blocking descriptor.
fn stay_home_if_blocking(descriptor: i32) {
    if let Some(thread) = convertible()
        && !is_nonblocking(descriptor)
    {
        stay_home(thread);
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn connect(descriptor: i32, address: *const u8, size: u32) -> i32 {
    stay_home_if_blocking(descriptor);
    unsafe { real::connect(descriptor, address, size) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn readv(descriptor: i32, vectors: *const u8, count: i32) -> isize {
    stay_home_if_blocking(descriptor);
    unsafe { real::readv(descriptor, vectors, count) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn writev(descriptor: i32, vectors: *const u8, count: i32) -> isize {
    stay_home_if_blocking(descriptor);
    unsafe { real::writev(descriptor, vectors, count) }
}
