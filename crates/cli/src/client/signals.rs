//! Termination signals, and output that they interrupt.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use super::failure::Failure;

/// Bytes that a pipe takes without blocking when it is writable: `PIPE_BUF` of Linux.
const PIECE_BYTES: usize = 4096;

/// SIGINT and SIGTERM, as a readable socket.
pub(super) struct Signals(UnixStream);

impl Signals {
    /// Handles the signals from now on. A second signal ends the process immediately.
    pub(super) fn install() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        for signal in [SIGTERM, SIGINT] {
            let is_set = Arc::new(AtomicBool::new(false));
            flag::register_conditional_default(signal, is_set.clone())?;
            flag::register(signal, is_set)?;
            low_level::pipe::register(signal, write.try_clone()?)?;
        }
        Ok(Self(read))
    }

    /// An entry for `poll`, readable after a signal.
    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.0, PollFlags::IN)
    }

    /// Writes to stdout. While stdout is full, a signal ends the wait.
    ///
    /// # Errors
    /// After a signal, and if stdout is closed or fails.
    pub(super) fn print(&self, mut bytes: &[u8]) -> Result<(), Failure> {
        let stdout = io::stdout();
        while !bytes.is_empty() {
            let mut fds = [self.poll_fd(), PollFd::new(&stdout, PollFlags::OUT)];
            match poll(&mut fds, None) {
                Ok(_) if !fds[0].revents().is_empty() => return Err(Failure::Interrupted),
                Ok(_) => (),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(Failure::from_io("cannot wait", &error.into())),
            }
            let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
            match rustix::io::write(&stdout, piece) {
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::INTR | Errno::AGAIN) => (),
                Err(Errno::PIPE) => return Err(Failure::OutputClosed),
                Err(error) => return Err(Failure::from_io("cannot print", &error.into())),
            }
        }
        Ok(())
    }
}
