//! Calls that give a file another descriptor, or change flags of a descriptor. Their behaviour is unchanged, but
//! afterwards the records of the descriptors are not trusted.
//!
//! # Safety
//!
//! The caller passes arguments that the C library accepts.

use crate::calls::threads::attributes;
use crate::readiness::{poller, records, watch};
use crate::system::{flags, real, sys};
use crate::thread::current;
use crate::waiting::key::key;
use crate::waiting::table;

const AF_INET: i32 = 2;
const AF_INET6: i32 = 10;
const SOCK_STREAM: i32 = 1;
const TYPE_MASK: i32 = 15;
const FIONBIO: usize = 0x5421;
/// `setsockopt` with a protocol that changes how bytes are received, such as TLS.
const UPPER_PROTOCOL: (i32, i32) = (6, 31);
/// `close_range` then closes nothing yet.
const CLOSE_RANGE_CLOEXEC: i32 = 4;
/// The kernel thread gets a separate table of descriptors.
const CLOSE_RANGE_UNSHARE: i32 = 2;

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn socket(family: i32, kind: i32, protocol: i32) -> i32 {
    let opened = unsafe { real::socket(family, kind, protocol) };
    if matches!(family, AF_INET | AF_INET6) && kind & TYPE_MASK == SOCK_STREAM {
        records::open(opened);
    }
    opened
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn dup(descriptor: i32) -> i32 {
    watch::share(descriptor);
    unsafe { real::dup(descriptor) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn dup2(descriptor: i32, new: i32) -> i32 {
    if poller::is_own(new) {
        return sys::fail(sys::EBADF) as i32;
    }
    replace(descriptor, new);
    let result = unsafe { real::dup2(descriptor, new) };
    table::wake(key(new), usize::MAX);
    result
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn dup3(descriptor: i32, new: i32, flags: i32) -> i32 {
    if poller::is_own(new) {
        return sys::fail(sys::EBADF) as i32;
    }
    replace(descriptor, new);
    let result = unsafe { real::dup3(descriptor, new, flags) };
    table::wake(key(new), usize::MAX);
    result
}

/// Distrusts both descriptors; the new one is closed.
fn replace(descriptor: i32, new: i32) {
    watch::share(descriptor);
    if new != descriptor {
        watch::close(new);
    }
}

/// `fclose` will close the descriptor without calling this library.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn fdopen(descriptor: i32, mode: *const u8) -> *mut u8 {
    watch::share(descriptor);
    unsafe { real::fdopen(descriptor, mode) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn ioctl(descriptor: i32, request: usize, argument: usize) -> i32 {
    let result = unsafe { real::ioctl(descriptor, request, argument) };
    if request == FIONBIO {
        records::forget_flags(descriptor);
    }
    result
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn setsockopt(
    descriptor: i32,
    level: i32,
    option: i32,
    value: *const u8,
    size: u32,
) -> i32 {
    if (level, option) == UPPER_PROTOCOL {
        watch::share(descriptor);
    }
    if (level as usize, option as usize) == (flags::SOL_SOCKET, flags::SO_RCVLOWAT) {
        flags::note_minimum();
    }
    let result = unsafe { real::setsockopt(descriptor, level, option, value, size) };
    records::forget_flags(descriptor);
    result
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn close_range(first: u32, last: u32, flags: i32) -> i32 {
    let close = |first, last| unsafe { real::close_range(first, last, flags) };
    if flags & CLOSE_RANGE_UNSHARE != 0 {
        attributes::separate(current());
        return close(first, last);
    }
    if flags & CLOSE_RANGE_CLOEXEC != 0 {
        return outside_own(first, last, close);
    }
    end_range(first, last, || outside_own(first, last, close))
}

/// Closes a range of descriptors. Threads that wait for one find that it is closed.
fn end_range(first: u32, last: u32, close: impl FnOnce() -> i32) -> i32 {
    watch::close_range(first, last);
    watch::end_all_waits(&(first..=last));
    let result = close();
    table::wake_all(&(first..=last));
    result
}

/// Calls a function with the parts of a range of descriptors that contain no descriptor of this library, until a call
/// fails.
fn outside_own(mut first: u32, last: u32, close: impl Fn(u32, u32) -> i32) -> i32 {
    if first > last {
        return close(first, last);
    }
    for own in poller::own().into_iter().filter_map(|descriptor| u32::try_from(descriptor).ok()) {
        if !(first..=last).contains(&own) || !poller::is_own(own as i32) {
            continue;
        }
        if own > first && close(first, own - 1) != 0 {
            return -1;
        }
        first = own + 1;
    }
    if first <= last { close(first, last) } else { 0 }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn closefrom(first: i32) {
    let (first, last) = (first.max(0) as u32, u32::MAX);
    let close = |first, last| match last {
        u32::MAX => {
            unsafe { real::closefrom(first as i32) };
            0
        }
        _ => unsafe { real::close_range(first, last, 0) },
    };
    end_range(first, last, || outside_own(first, last, close));
}

aliases! { __dup2 = dup2; }
