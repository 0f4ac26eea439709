//! The kernel's count of datagrams that it dropped because a socket's receive buffer was full.
//!
//! # Safety
//! The only call is a `getsockopt` into an array of the length that is passed with it.

use std::io;
use std::os::fd::BorrowedFd;

/// Datagrams that the kernel dropped because the socket's receive buffer was full, since the socket was made. The
/// counter has 32 bits and wraps.
///
/// # Errors
/// As `getsockopt(2)`.
#[cfg(target_os = "linux")]
pub(crate) fn udp_drops(fd: BorrowedFd<'_>) -> io::Result<u32> {
    use std::mem::size_of_val;
    use std::os::fd::AsRawFd;

    /// Values of `SO_MEMINFO`, and the index of the drop counter (`SK_MEMINFO_DROPS`).
    const VALUES: usize = 9;
    const DROPS: usize = 8;

    let mut values = [0_u32; VALUES];
    let mut length = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `values`, and the new length to `length`. Both are alive and
    // exclusively borrowed; any bytes are valid in an array of integers.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(values[DROPS])
}

/// Not available: only Linux reports it per socket.
///
/// # Errors
/// `Unsupported`.
#[cfg(not(target_os = "linux"))]
pub(crate) fn udp_drops(_: BorrowedFd<'_>) -> io::Result<u32> {
    Err(io::ErrorKind::Unsupported.into())
}
