//! Sending without waiting.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

use socket2::SockRef;

use crate::user_bytes::MAX_PARTS;

#[cfg(not(target_vendor = "apple"))]
const FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
#[cfg(target_vendor = "apple")]
const FLAGS: i32 = libc::MSG_DONTWAIT;

/// The maximum number of slices in a system call (`IOV_MAX`).
const MAX_SLICES: usize = 1024;

/// Sends up to [`MAX_PARTS`] of `parts`, none of which is empty. Returns the number of bytes sent, or `None` if there
/// are no parts.
pub(crate) fn send<'a>(
    socket: &OwnedFd,
    mut parts: impl Iterator<Item = &'a [u8]>,
) -> Option<io::Result<usize>> {
    let (socket, first) = (SockRef::from(socket), parts.next()?);
    Some(match parts.next() {
        None => socket.send_with_flags(first, FLAGS),
        Some(second) => {
            let mut slices = [IoSlice::new(&[]); MAX_PARTS];
            let parts = [first, second].into_iter().chain(parts);
            let count = slices.iter_mut().zip(parts).map(|(slot, part)| *slot = IoSlice::new(part));
            let count = count.count();
            socket.send_vectored_with_flags(&slices[..count], FLAGS)
        }
    })
}

/// Sends the first bytes of `parts`. Only the first [`MAX_SLICES`] parts are considered.
pub(crate) fn send_now(socket: &OwnedFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    let socket = SockRef::from(socket);
    loop {
        let sent = match parts {
            [part] => socket.send_with_flags(part, FLAGS),
            parts => socket.send_vectored_with_flags(&parts[..parts.len().min(MAX_SLICES)], FLAGS),
        };
        if !matches!(&sent, Err(error) if error.kind() == io::ErrorKind::Interrupted) {
            return sent;
        }
    }
}

/// Whether the call failed because it would have had to wait.
pub(crate) fn would_block<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}
