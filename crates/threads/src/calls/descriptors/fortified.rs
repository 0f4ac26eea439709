//! Variants of functions that check the size of the buffer, which compilers call with `_FORTIFY_SOURCE`.
//!
//! # Safety
//!
//! The contracts are those of the functions without a check, plus the size of the buffer.

use crate::calls::descriptors::files::read;
use crate::calls::descriptors::polls::{poll, ppoll};
use crate::calls::descriptors::sockets::{recv, recvfrom};
use crate::system::sys::Timespec;

unsafe extern "C" {
    /// Reports an overflow and ends the process.
    fn __chk_fail() -> !;
}

/// Size of a request of `poll`.
const REQUEST_BYTES: usize = 8;

fn check(needed: usize, size: usize) {
    if needed > size {
        unsafe { __chk_fail() }
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn __read_chk(
    descriptor: i32,
    data: *mut u8,
    length: usize,
    size: usize,
) -> isize {
    check(length, size);
    unsafe { read(descriptor, data, length) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn __recv_chk(
    descriptor: i32,
    data: *mut u8,
    length: usize,
    size: usize,
    flags: i32,
) -> isize {
    check(length, size);
    unsafe { recv(descriptor, data, length, flags) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn __recvfrom_chk(
    descriptor: i32,
    data: *mut u8,
    length: usize,
    size: usize,
    flags: i32,
    from: *mut u8,
    from_size: *mut u32,
) -> isize {
    check(length, size);
    unsafe { recvfrom(descriptor, data, length, flags, from, from_size) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn __poll_chk(requests: *mut u8, count: u64, timeout: i32, size: usize) -> i32 {
    check(count as usize, size / REQUEST_BYTES);
    unsafe { poll(requests, count, timeout) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn __ppoll_chk(
    requests: *mut u8,
    count: u64,
    timeout: *const Timespec,
    mask: *const u8,
    size: usize,
) -> i32 {
    check(count as usize, size / REQUEST_BYTES);
    unsafe { ppoll(requests, count, timeout, mask) }
}
