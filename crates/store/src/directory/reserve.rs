//! Disk space that the store keeps in reserve for when the disk is full.
//!
//! The reserve is a separate file. When the disk is full, the file is deleted, which frees enough space to write
//! deletions and to clean. When the disk has space again, the file is recreated. Until then the store is
//! [low](crate::Status::is_low) on space, and callers must not add to the state.

use std::io;
use std::time::Duration;

use phalanx::blocking::BlockingStage;
use phalanx::fs::Dir;
use phalanx::shutdown::is_draining;
use phalanx::time::now;

use crate::directory::names::RESERVE;

/// Interval between attempts to create the reserve while the disk lacks space.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The reserve.
#[derive(Debug)]
pub(crate) struct Reserve {
    /// Bytes to set aside; 0 for none.
    pub(crate) bytes: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No attempt to create the file has been made yet.
    Unknown,
    /// The disk lacked space at this time.
    Released { tried: Duration },
    /// The file exists.
    Created,
    /// No reserve is configured, or the file system cannot allocate one.
    Unsupported,
}

impl Reserve {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { bytes, state: if bytes > 0 { State::Unknown } else { State::Unsupported } }
    }

    /// Whether the reserve is in use, or could not be allocated.
    pub(crate) fn is_low(&self) -> bool {
        matches!(self.state, State::Released { .. })
    }

    /// Bytes that are set aside.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        if self.state == State::Created { self.bytes } else { 0 }
    }

    /// Creates the reserve if it is missing and an attempt is due.
    pub(crate) async fn ensure(&mut self, directory: &Dir, threads: BlockingStage<()>) {
        let bytes = self.bytes;
        let is_due = match self.state {
            State::Created | State::Unsupported => false,
            State::Unknown => true,
            State::Released { tried } => now().saturating_sub(tried) >= RETRY_INTERVAL,
        };
        if !is_due || is_draining() {
            return;
        }
        let released = State::Released { tried: now() };
        // Require a quarter more free space than the reserve needs; otherwise the next stored message could fill the
        // disk again.
        let wanted = if self.state == State::Unknown { 0 } else { bytes.saturating_add(bytes / 4) };
        let of_thread = directory.clone();
        let space = threads.call(move |_| of_thread.space()).await;
        self.state = match space {
            Ok(Ok(space)) if space.available >= wanted => {
                match allocate(directory, bytes, threads).await {
                    Ok(()) => State::Created,
                    Err(error) if error.kind() == io::ErrorKind::Unsupported => State::Unsupported,
                    Err(_) => released,
                }
            }
            _ => released,
        };
    }

    /// Frees the reserve. Returns whether there was one.
    pub(crate) async fn release(&mut self, directory: &Dir, threads: BlockingStage<()>) -> bool {
        if self.state != State::Created {
            return false;
        }
        remove(directory, threads).await;
        // Some file systems free a file's blocks only when its deletion is on disk.
        let _ = directory.sync().await;
        self.state = State::Released { tried: now() };
        true
    }
}

/// Creates the file with `bytes`, or nothing on failure.
async fn allocate(directory: &Dir, bytes: u64, threads: BlockingStage<()>) -> io::Result<()> {
    let file = directory.create_private(RESERVE.as_bytes()).await?;
    let allocated = threads.call(move |_| file.allocate(bytes)).await;
    let allocated = allocated.unwrap_or_else(|error| Err(io::Error::other(error)));
    if allocated.is_err() {
        remove(directory, threads).await;
    }
    allocated
}

async fn remove(directory: &Dir, threads: BlockingStage<()>) {
    let directory = directory.clone();
    let _ = threads.call(move |_| directory.remove(RESERVE.as_bytes())).await;
}
