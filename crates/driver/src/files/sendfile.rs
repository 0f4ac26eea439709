//! Sending a file to a socket without a user-space buffer: the kernel copies the file, or queues its pages without a
//! copy ([`FileTransfer`]).
//!
//! A file is sent in steps, so that a large file does not delay other requests. Each step sends only bytes that are
//! known to be in the page cache, because it would otherwise wait for a disk and block the processor. If the next bytes
//! are not cached, the request ends early, and the caller reads them like any other part of a file. If the kernel does
//! not report which pages are cached (on systems other than Linux, and on some file systems), nothing of the file is
//! sent.
//!
//! A copy that is complete contains only bytes of the file. A truncation clears the rest of the last page, and a copy
//! in progress may see zeros there. But ext4, XFS, btrfs and tmpfs shorten the file before they clear the page, or
//! exclude reads until it is shorter. So the last byte of a request is sent separately: it is read when all others have
//! been copied, and sent only if the file is still long enough after that.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::files::file::Descriptor;
use crate::files::mmap::Window;
use crate::files::page_cache;
use crate::{Done, File, FileTransfer};

/// The number of bytes of files that a driver sends in one turn before it handles other requests. This takes some
/// hundred microseconds. Files that do not get a turn wait, and [`QueueDelays`] measures how long. A file of 512 KiB
/// fits into one turn; splitting it into two turns took at least 10 % longer.
pub(crate) const TURN_BYTES: usize = 512 << 10;

/// An attempt counts as at least this number of bytes in a turn, because attempts on many full sockets take time too.
const MIN_ATTEMPT: usize = 16 << 10;

/// The time for which files have waited for their turn while their sockets had space: the minimum, over all turns in
/// which a file was sent, of the longest wait. The queueing delay of a stage is measured in the same way.
#[derive(Default)]
pub(crate) struct QueueDelays(Option<Duration>);

impl QueueDelays {
    /// Records a turn at `now`, in which the oldest file has been ready `since` then.
    pub(crate) fn add(&mut self, now: Instant, since: Instant) {
        let wait = now.saturating_duration_since(since);
        self.0 = Some(self.0.map_or(wait, |smallest| smallest.min(wait)));
    }

    /// The minimum since the last call; zero if no file was sent.
    pub(crate) fn take(&mut self) -> Duration {
        self.0.take().unwrap_or_default()
    }
}

/// The rest of a send: a head, then part of a file.
pub(crate) struct FileSend {
    head: Vec<u8>,
    /// Bytes of the head that were sent.
    head_sent: usize,
    file: Arc<Descriptor>,
    /// The mapped part of the file, once there is one.
    window: Option<Arc<Window>>,
    transfer: FileTransfer,
    offset: u64,
    remaining: u64,
    sent: u64,
}

/// The result of a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// All of the file was sent, or all of it that is in the page cache.
    Over,
    /// The socket's send buffer is full.
    Full,
    /// The turn is over.
    Paused,
}

impl FileSend {
    /// # Errors
    /// `EINVAL` for a range that ends beyond 2⁶³ bytes, `EBADF` for a simulated file.
    pub(crate) fn new(
        head: Vec<u8>,
        file: &File,
        (offset, length): (u64, u64),
        transfer: FileTransfer,
    ) -> io::Result<Self> {
        check(offset, length)?;
        Ok(Self {
            head,
            head_sent: 0,
            file: file.shared_fd()?,
            window: None,
            transfer,
            offset,
            remaining: length,
            sent: 0,
        })
    }

    /// Sends as much as the non-blocking `socket` accepts: the head, and at most one step of the file, within the
    /// remaining budget of this `turn`. Adds the number of its system calls to `calls`.
    ///
    /// # Errors
    /// The errors of `send(2)`, `read(2)` and `fstat(2)`. `UnexpectedEof` if the file was truncated during a call; the
    /// last bytes sent may then be zeros.
    pub(crate) fn advance(
        &mut self,
        socket: BorrowedFd<'_>,
        turn: &mut usize,
        calls: &mut u64,
    ) -> io::Result<Step> {
        let before = *turn;
        let advanced = self.advance_by(socket, turn, calls);
        *turn = (*turn).min(before.saturating_sub(MIN_ATTEMPT));
        advanced
    }

    fn advance_by(
        &mut self,
        socket: BorrowedFd<'_>,
        turn: &mut usize,
        calls: &mut u64,
    ) -> io::Result<Step> {
        let mut step = *turn;
        // Bytes in the page cache.
        let mut cached = 0;
        let mut last = [0];
        loop {
            let wanted = self.remaining.min(step as u64) as usize;
            if cached == 0 && wanted > 0 {
                cached = if self.is_last() {
                    self.read_last(&mut last, calls)?
                } else {
                    self.sendable(wanted, calls)?
                };
            }
            let head = &self.head[self.head_sent..];
            if head.is_empty() && cached == 0 {
                return Ok(if wanted == 0 && self.remaining > 0 {
                    Step::Paused
                } else {
                    Step::Over
                });
            }
            match self.send(socket, cached, last, calls) {
                // With zero copy: the file was truncated since the last check.
                Ok(0) if self.is_zero_copy() => return Ok(Step::Over),
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    let of_head = sent.min(self.head.len() - self.head_sent);
                    let of_file = sent - of_head;
                    self.head_sent += of_head;
                    (cached, step, *turn) = (cached - of_file, step - of_file, *turn - of_file);
                    self.offset += of_file as u64;
                    self.sent += of_file as u64;
                    self.remaining -= of_file as u64;
                    // The last byte is checked separately.
                    if of_file > 0 && !self.is_last() && self.length(calls)? < self.offset {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Step::Full),
                // The file was truncated since the last check.
                Err(error) if error.raw_os_error() == Some(libc::EFAULT) => return Ok(Step::Over),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether at most the last byte of a copy is left.
    fn is_last(&self) -> bool {
        !self.is_zero_copy() && self.remaining <= 1
    }

    /// Reads the last byte. Returns zero if it is not cached, or no longer in the file.
    fn read_last(&self, last: &mut [u8; 1], calls: &mut u64) -> io::Result<usize> {
        *calls += 1;
        let read = page_cache::read(self.file.as_fd(), last, self.offset)?.bytes;
        // After the read, because a truncation during the read may have cleared the byte.
        Ok(if read > 0 && self.length(calls)? > self.offset { read } else { 0 })
    }

    /// The number of the next `wanted` bytes that can be sent without waiting for a disk. For a copy, the last byte is
    /// excluded.
    fn sendable(&mut self, wanted: usize, calls: &mut u64) -> io::Result<usize> {
        let reserved = u64::from(!self.is_zero_copy());
        let wanted = (self.remaining - reserved).min(wanted as u64) as usize;
        let cached = self.file.resident(self.offset, wanted, calls)?;
        if cached == 0 || self.is_zero_copy() {
            return Ok(cached);
        }
        let mapped = self.window.as_ref().map_or(0, |window| window.mapped_from(self.offset));
        if cached == wanted && mapped > 0 {
            // The last byte was in the page cache, so the file was at least this long a moment ago. A truncation
            // since then is noticed after the copy.
            return Ok(mapped.min(cached as u64) as usize);
        }
        let length = self.length(calls)?;
        let cached = length.saturating_sub(self.offset).min(cached as u64);
        if cached == 0 {
            return Ok(0);
        }
        // If the file cannot be mapped, treat it as not cached.
        self.window = self.file.window(self.offset, length).ok();
        let mapped = self.window.as_ref().map_or(0, |window| window.mapped_from(self.offset));
        Ok(mapped.min(cached) as usize)
    }

    /// Whether the socket queues the file's own pages.
    fn is_zero_copy(&self) -> bool {
        cfg!(target_os = "linux") && self.transfer == FileTransfer::ZeroCopy
    }

    /// The file's current length.
    fn length(&self, calls: &mut u64) -> io::Result<u64> {
        *calls += 1;
        page_cache::metadata(self.file.as_fd()).map(|metadata| metadata.length)
    }

    /// Makes one system call, which sends the rest of the head and `cached` bytes of the file. If only the last byte of
    /// a copy is left, it is `last`. With zero copy, the head and the file need a call each, and the head waits in the
    /// socket for the file, just as copied bytes wait for the last one.
    fn send(
        &self,
        socket: BorrowedFd<'_>,
        cached: usize,
        last: [u8; 1],
        calls: &mut u64,
    ) -> io::Result<usize> {
        *calls += 1;
        let head = &self.head[self.head_sent..];
        #[cfg(target_os = "linux")]
        if cached > 0 && self.is_zero_copy() {
            return if head.is_empty() {
                let mut offset = self.offset;
                Ok(rustix::fs::sendfile(socket, &self.file, Some(&mut offset), cached)?)
            } else {
                SockRef::from(&socket).send_with_flags(head, FLAGS | MORE)
            };
        }
        match &self.window {
            Some(window) if cached > 0 && !self.is_last() => {
                let flag = if self.remaining - cached as u64 == 1 { MORE } else { 0 };
                window.send(socket, head, (self.offset, cached), FLAGS | flag)
            }
            _ => {
                let parts = [IoSlice::new(head), IoSlice::new(&last[..cached])];
                SockRef::from(&socket).send_vectored_with_flags(&parts, FLAGS)
            }
        }
    }

    /// The result of the request.
    pub(crate) fn done(mut self) -> Done {
        self.head.clear();
        Done::SentFile { head: self.head, bytes: self.sent }
    }
}

/// `EINVAL` for a range that ends beyond 2⁶³ bytes.
pub(crate) fn check(offset: u64, length: u64) -> io::Result<()> {
    match offset.checked_add(length) {
        Some(end) if end <= i64::MAX as u64 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

#[cfg(not(target_vendor = "apple"))]
const FLAGS: i32 = libc::MSG_NOSIGNAL;
#[cfg(target_vendor = "apple")]
const FLAGS: i32 = 0;

/// Tells the kernel that more bytes follow immediately. Only used where the kernel reports which pages are cached.
#[cfg(target_os = "linux")]
const MORE: i32 = libc::MSG_MORE;
#[cfg(not(target_os = "linux"))]
const MORE: i32 = 0;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use socket2::{Domain, Socket, Type};

    use super::*;

    /// A copy of all of a file with this content.
    fn copy_of(content: &[u8]) -> (std::fs::File, FileSend) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let range = (0, content.len() as u64);
        let sent = File::from(file.try_clone().unwrap());
        (file, FileSend::new(Vec::new(), &sent, range, FileTransfer::Copy).unwrap())
    }

    /// The last byte follows by itself, so that it is not sent if the file was truncated while the others were copied.
    #[test]
    fn the_last_byte_waits_for_a_check() {
        const LENGTH: usize = 5000;
        let content = [7; LENGTH];
        for truncated in [false, true] {
            let (file, mut sending) = copy_of(&content);
            // Each call sends a separate message, and there is room for one.
            let (local, peer) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).unwrap();
            local.set_nonblocking(true).unwrap();
            local.set_send_buffer_size(LENGTH / 2 + 20).unwrap();
            let (mut turn, mut calls, mut received) = (TURN_BYTES, 0, [0; LENGTH]);
            let step = sending.advance(local.as_fd(), &mut turn, &mut calls).unwrap();
            if sending.sent == 0 {
                return println!("skipped: the file system does not report what is cached");
            }
            assert_eq!((step, sending.sent), (Step::Full, LENGTH as u64 - 1));
            if truncated {
                file.set_len(LENGTH as u64 - 1).unwrap();
            }
            assert_eq!((&peer).read(&mut received).unwrap(), LENGTH - 1);
            let step = sending.advance(local.as_fd(), &mut turn, &mut calls).unwrap();
            assert_eq!(step, Step::Over);
            drop(local);
            let last = (&peer).read(&mut received[LENGTH - 1..]).unwrap();
            assert_eq!(last, usize::from(!truncated));
            assert!(received[..LENGTH - 1 + last] == content[..LENGTH - 1 + last]);
        }
    }

    /// Attempts on many full sockets must not make a turn long, even if none of them sends a byte.
    #[test]
    fn an_attempt_counts_in_the_turn() {
        const LENGTH: u64 = 8 << 20;
        let file = tempfile::tempfile().unwrap();
        file.set_len(LENGTH).unwrap();
        // Into the page cache.
        std::io::copy(&mut file.try_clone().unwrap(), &mut io::sink()).unwrap();
        let (socket, _peer) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut sending =
            FileSend::new(Vec::new(), &File::from(file), (0, LENGTH), FileTransfer::Copy).unwrap();
        let (mut turn, mut calls) = (LENGTH as usize, 0);
        match sending.advance(socket.as_fd(), &mut turn, &mut calls).unwrap() {
            Step::Full => assert_eq!(turn as u64, LENGTH - sending.sent),
            Step::Over => {
                return println!("skipped: the file system does not report what is cached");
            }
            Step::Paused => panic!("no send buffer is that large"),
        }
        let sent = sending.sent;
        for (before, after) in [(TURN_BYTES, TURN_BYTES - MIN_ATTEMPT), (MIN_ATTEMPT / 2, 0)] {
            turn = before;
            let step = sending.advance(socket.as_fd(), &mut turn, &mut calls).unwrap();
            assert_eq!((step, turn, sending.sent), (Step::Full, after, sent));
        }
    }
}
