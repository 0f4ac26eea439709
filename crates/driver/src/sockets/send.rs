//! Sending without waiting.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

use socket2::SockRef;

use crate::Payload;
use crate::user_bytes::MAX_PARTS;

#[cfg(not(target_vendor = "apple"))]
const FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
#[cfg(target_vendor = "apple")]
const FLAGS: i32 = libc::MSG_DONTWAIT;

/// Sends up to [`MAX_PARTS`] of `parts`, which are not empty. Returns the number of bytes that were sent, or none if
/// there are no parts.
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

/// Sends the first bytes of `payload`. Returns zero if there is no room for any.
pub(crate) fn send_now(socket: &OwnedFd, payload: &Payload) -> io::Result<usize> {
    let parts = [&payload.head[..], &payload.body[..]];
    match send(socket, parts.into_iter().filter(|part| !part.is_empty())).unwrap_or(Ok(0)) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
        {
            Ok(0)
        }
        sent => sent,
    }
}
