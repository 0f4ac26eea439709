//! Flags and options of descriptors, read from the kernel.
//!
//! # Safety
//!
//! System calls write only to variables of this file.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::system::sys;

const F_GETFL: usize = 3;
const O_NONBLOCK: isize = 0o4000;
pub(crate) const SOL_SOCKET: usize = 1;
const SO_PROTOCOL: usize = 38;
pub(crate) const SO_RCVLOWAT: usize = 18;
pub(crate) const SO_ACCEPTCONN: usize = 30;
pub(crate) const SO_TYPE: usize = 3;
pub(crate) const SO_RCVTIMEO: usize = 20;
pub(crate) const SO_SNDTIMEO: usize = 21;
pub(crate) const SOCK_STREAM: u64 = 1;
pub(crate) const SOCK_DGRAM: u64 = 2;
const IPPROTO_TCP: u64 = 6;

/// Whether the program has made a descriptor non-blocking.
pub(crate) fn is_nonblocking(descriptor: i32) -> bool {
    let flags = sys::call(sys::SYS_FCNTL, [descriptor as usize, F_GETFL, 0, 0, 0, 0]);
    flags < 0 || flags & O_NONBLOCK != 0
}

/// Nanoseconds after which calls on a socket fail; `None` if they wait forever.
pub(crate) fn timeout(descriptor: i32, option: usize) -> Option<u64> {
    let [seconds, microseconds] = value(descriptor, option)?;
    let length = seconds.saturating_mul(1_000_000_000).saturating_add(microseconds * 1000);
    (length != 0).then_some(length)
}

/// The value of a socket option that is a number.
pub(crate) fn option(descriptor: i32, option: usize) -> Option<u64> {
    value(descriptor, option).map(|[value, _]| value)
}

/// Whether the program has set a minimum for calls to receive from a socket.
static HAS_MINIMA: AtomicBool = AtomicBool::new(false);

/// Notes that a socket may have a minimum.
pub(crate) fn note_minimum() {
    HAS_MINIMA.store(true, Ordering::Relaxed);
}

/// Whether calls to receive from a socket wait for more than one byte.
pub(crate) fn has_minimum(descriptor: i32) -> bool {
    HAS_MINIMA.load(Ordering::Relaxed)
        && option(descriptor, SO_RCVLOWAT).is_some_and(|bytes| bytes as i32 > 1)
}

/// Whether a socket is a TCP socket.
pub(crate) fn is_tcp(descriptor: i32) -> bool {
    option(descriptor, SO_PROTOCOL) == Some(IPPROTO_TCP)
        && option(descriptor, SO_TYPE) == Some(SOCK_STREAM)
}

/// Whether a socket is a TCP socket without timeouts.
pub(crate) fn is_plain_tcp(descriptor: i32) -> bool {
    is_tcp(descriptor) && !has_timeouts(descriptor)
}

/// Whether a socket has a receive or send timeout.
pub(crate) fn has_timeouts(descriptor: i32) -> bool {
    [SO_RCVTIMEO, SO_SNDTIMEO].iter().any(|option| timeout(descriptor, *option).is_some())
}

fn value(descriptor: i32, option: usize) -> Option<[u64; 2]> {
    let (mut value, mut size) = ([0_u64; 2], 16_u32);
    let arguments = [
        descriptor as usize,
        SOL_SOCKET,
        option,
        value.as_mut_ptr() as usize,
        &raw mut size as usize,
        0,
    ];
    (sys::call(sys::SYS_GETSOCKOPT, arguments) == 0).then_some(value)
}
