//! A file on its way to a socket: copied there by the kernel, with no buffer of ours in between.
//!
//! It moves in steps, so that one large file keeps nobody waiting, and each step only as far as the file
//! is known to be in memory: the copy would wait for a disk, and with it all that its processor does.
//! What is not there ends the request early, and whoever asked reads it as any other part of a file.
//! Where the kernel cannot say what it has (not Linux, or a file system that does not tell), that is all.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::file::Descriptor;
use crate::mmap::Window;
use crate::{Done, File, page_cache};

/// Bytes of files that a driver sends before it turns to everything else: some hundred microseconds, for which
/// all others wait. What it does not come to waits its turn, and how long is told ([`QueueDelays`]). A file of 512 KiB
/// fits: in two turns, with all others between them, it took a tenth more at least.
pub(crate) const TURN_BYTES: usize = 512 << 10;

/// The least that each attempt to send counts for in a turn: many sockets with next to no room take their time, too.
const MIN_ATTEMPT: usize = 16 << 10;

/// How long files have waited for their turn, while their sockets had room: the smallest, over the turns
/// in which any went on, of the wait of the one that had waited for longest. So a stage's queue is judged, too.
#[derive(Default)]
pub(crate) struct QueueDelays(Option<Duration>);

impl QueueDelays {
    /// In a turn that begins `now` the oldest is one that could have gone on `since` then.
    pub(crate) fn add(&mut self, now: Instant, since: Instant) {
        let wait = now.saturating_duration_since(since);
        self.0 = Some(self.0.map_or(wait, |smallest| smallest.min(wait)));
    }

    /// The smallest since the last call; zero where no file went on.
    pub(crate) fn take(&mut self) -> Duration {
        self.0.take().unwrap_or_default()
    }
}

/// What is left to send: a head, then part of a file.
pub(crate) struct FileSend {
    head: Vec<u8>,
    /// Bytes of the head that have left.
    begun: usize,
    file: Arc<Descriptor>,
    /// Where it is sent from, once that is known.
    window: Option<Arc<Window>>,
    offset: u64,
    left: u64,
    sent: u64,
}

/// How far it got.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// All is sent, or all that is in memory.
    Over,
    /// The socket takes no more now.
    Full,
    /// The turn is over.
    Paused,
}

impl FileSend {
    /// # Errors
    /// `EINVAL` when no file is that long, `EBADF` for a file that the kernel does not know.
    pub(crate) fn new(head: Vec<u8>, file: &File, offset: u64, length: u64) -> io::Result<Self> {
        check(offset, length)?;
        Ok(Self {
            head,
            begun: 0,
            file: file.shared_fd()?,
            window: None,
            offset,
            left: length,
            sent: 0,
        })
    }

    /// Sends what the non-blocking `socket` takes, but of the file one step at most, and no more than
    /// what is left of this `turn`. Counts its system calls.
    ///
    /// # Errors
    /// As `send(2)` and `fstat(2)`; `UnexpectedEof` when the file was cut off in this very moment: what
    /// was sent last may not be what it held.
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
        // Bytes that are in memory.
        let mut there = 0;
        loop {
            let wanted = self.left.min(step as u64) as usize;
            if there == 0 && wanted > 0 {
                there = self.there(wanted, calls)?;
            }
            let head = &self.head[self.begun..];
            if head.is_empty() && there == 0 {
                return Ok(if wanted == 0 && self.left > 0 { Step::Paused } else { Step::Over });
            }
            match self.send(socket, there, calls) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    let of_head = sent.min(self.head.len() - self.begun);
                    let of_file = sent - of_head;
                    self.begun += of_head;
                    (there, step, *turn) = (there - of_file, step - of_file, *turn - of_file);
                    self.offset += of_file as u64;
                    self.sent += of_file as u64;
                    self.left -= of_file as u64;
                    if of_file > 0 && self.length(calls)? < self.offset {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Step::Full),
                // Cut off since we looked.
                Err(error) if error.raw_os_error() == Some(libc::EFAULT) => return Ok(Step::Over),
                Err(error) => return Err(error),
            }
        }
    }

    /// Of the next `wanted` bytes, how many can be sent without waiting for a disk.
    fn there(&mut self, wanted: usize, calls: &mut u64) -> io::Result<usize> {
        let there = page_cache::resident(self.file.as_fd(), self.offset, wanted, calls)?;
        if there == 0 {
            return Ok(0);
        }
        let held = self.window.as_ref().map_or(0, |window| window.holds(self.offset));
        if there == wanted && held > 0 {
            // The last byte was there, so the file is so long.
            return Ok(held.min(there as u64) as usize);
        }
        let length = self.length(calls)?;
        let there = length.saturating_sub(self.offset).min(there as u64);
        if there == 0 {
            return Ok(0);
        }
        // Without room for a mapping, it is as if it were not there.
        self.window = self.file.window(self.offset, length).ok();
        let held = self.window.as_ref().map_or(0, |window| window.holds(self.offset));
        Ok(held.min(there) as usize)
    }

    /// The file's length, now.
    fn length(&self, calls: &mut u64) -> io::Result<u64> {
        *calls += 1;
        page_cache::metadata(self.file.as_fd()).map(|metadata| metadata.length)
    }

    /// One call: what is left of the head, and `there` bytes of the file.
    fn send(&self, socket: BorrowedFd<'_>, there: usize, calls: &mut u64) -> io::Result<usize> {
        *calls += 1;
        let head = &self.head[self.begun..];
        match &self.window {
            Some(window) if there > 0 => window.send(socket, head, self.offset, there),
            _ => socket2::SockRef::from(&socket).send_with_flags(head, FLAGS),
        }
    }

    /// What it came to.
    pub(crate) fn done(mut self) -> Done {
        self.head.clear();
        Done::SentFile { head: self.head, bytes: self.sent }
    }
}

/// `EINVAL` for what lies beyond any file's end.
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Many sockets without room may not make a turn long, though none of them sends a byte.
    #[test]
    fn an_attempt_counts_in_the_turn() {
        const LENGTH: u64 = 8 << 20;
        let file = tempfile::tempfile().unwrap();
        file.set_len(LENGTH).unwrap();
        // Into the kernel's memory.
        std::io::copy(&mut file.try_clone().unwrap(), &mut io::sink()).unwrap();
        let (socket, _peer) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut sending = FileSend::new(Vec::new(), &File::from(file), 0, LENGTH).unwrap();
        let (mut turn, mut calls) = (LENGTH as usize, 0);
        match sending.advance(socket.as_fd(), &mut turn, &mut calls).unwrap() {
            Step::Full => assert_eq!(turn as u64, LENGTH - sending.sent),
            Step::Over => {
                return println!("skipped: the file system does not tell what is in memory");
            }
            Step::Paused => panic!("no socket has so much room"),
        }
        let sent = sending.sent;
        for (before, after) in [(TURN_BYTES, TURN_BYTES - MIN_ATTEMPT), (MIN_ATTEMPT / 2, 0)] {
            turn = before;
            let step = sending.advance(socket.as_fd(), &mut turn, &mut calls).unwrap();
            assert_eq!((step, turn, sending.sent), (Step::Full, after, sent));
        }
    }
}
