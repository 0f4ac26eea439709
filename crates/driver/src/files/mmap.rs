//! A window of a file that is mapped so that the kernel can copy from it to a socket.
//!
//! Sending from a mapping takes one copy and no separate buffer. `sendfile(2)` and `splice(2)` copy nothing, but the
//! socket then queues the file's own pages. If the file is truncated or overwritten before they are sent, the client
//! receives zeros or newer content. Copied bytes do not change.
//!
//! # Safety
//! A window is memory that stays mapped during its life, and that other processes may change or truncate at
//! any time. So no reference to it is ever made, and nothing here reads it. Its address is passed only to
//! `sendmsg(2)`, within its bounds. If the file has become shorter, that call fails with `EFAULT` and has no
//! other effect.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The size of a window, in bytes. Its page table takes 1/512 of that.
const WINDOW_BYTES: u64 = 32 << 20;

/// A mapped part of a file.
#[derive(Debug)]
pub(crate) struct Window {
    start: *mut c_void,
    /// The start of the window in the file.
    offset: u64,
    length: u64,
}

// SAFETY: no thread reads through the address, and the mapping belongs to the process.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// Maps the window that contains the byte at `at`, which must be within the file's `length`.
    ///
    /// # Errors
    /// The errors of `mmap(2)`.
    pub(crate) fn open(file: BorrowedFd<'_>, at: u64, length: u64) -> io::Result<Self> {
        let offset = at / WINDOW_BYTES * WINDOW_BYTES;
        let length = (length - offset).min(WINDOW_BYTES);
        // SAFETY: this creates a new mapping at an address that the kernel chooses.
        let start = unsafe {
            let flags = MapFlags::SHARED;
            mmap(ptr::null_mut(), length as usize, ProtFlags::READ, flags, file, offset)?
        };
        Ok(Self { start, offset, length })
    }

    /// The number of bytes that the window contains from `at` on.
    pub(crate) fn mapped_from(&self, at: u64) -> u64 {
        let end = self.offset + self.length;
        if at < self.offset { 0 } else { end.saturating_sub(at) }
    }

    /// Sends `head` and then `length` bytes of the file from `at`, as many as the socket accepts, with these `flags` of
    /// `sendmsg(2)`.
    ///
    /// # Errors
    /// The errors of `sendmsg(2)`; `EFAULT` if the file has become shorter.
    ///
    /// # Panics
    /// If the window does not contain the bytes.
    pub(crate) fn send(
        &self,
        socket: BorrowedFd<'_>,
        head: &[u8],
        (at, length): (u64, usize),
        flags: i32,
    ) -> io::Result<usize> {
        assert!(length as u64 <= self.mapped_from(at));
        let body = self.start.wrapping_byte_add((at - self.offset) as usize);
        let mut parts = [
            // The kernel only reads the bytes, although the pointer is mutable.
            libc::iovec { iov_base: head.as_ptr().cast_mut().cast(), iov_len: head.len() },
            libc::iovec { iov_base: body, iov_len: length },
        ];
        // SAFETY: a msghdr of zeros is an empty message.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len() as _;
        // SAFETY: the message and its parts live across the call, which reads from a slice and from within
        // the mapping.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the window owns the mapping. A send borrows the window, so none is in progress.
        let result = unsafe { munmap(self.start, self.length as usize) };
        debug_assert!(result.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_truncated_file_is_an_error_and_not_a_signal() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 20_000]).unwrap();
        let window = Window::open(file.as_fd(), 9000, 20_000).unwrap();
        assert_eq!(
            (window.mapped_from(0), window.mapped_from(19_999), window.mapped_from(20_000)),
            (20_000, 1, 0)
        );
        let (local, mut peer) = UnixStream::pair().unwrap();
        assert_eq!(window.send(local.as_fd(), b"head", (9000, 100), 0).unwrap(), 104);
        peer.read_exact(&mut [0; 104]).unwrap();
        file.set_len(0).unwrap();
        let error = window.send(local.as_fd(), b"", (9000, 100), 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        assert_eq!(
            Window::open(file.as_fd(), WINDOW_BYTES + 5, WINDOW_BYTES + 9)
                .unwrap()
                .mapped_from(WINDOW_BYTES),
            9
        );
    }
}
