//! The two halves of a stream, for use by two operations.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use phalanx_driver::{FileTransfer, Payload};

use super::stream::{SentFile, Stream};
use crate::fs::File;
use crate::io::IoTimeout;

/// The read half of a [`Stream`]. The connection is closed when both halves are dropped.
///
/// Made by [`Stream::into_split`]. As the stream, it stays on its processor.
#[derive(Debug)]
pub struct OwnedReadHalf(Arc<Stream>);

/// The write half of a [`Stream`]. Dropping it shuts down the write direction, so that the peer reads the end of the
/// stream. The connection is closed when both halves are dropped.
///
/// Made by [`Stream::into_split`]. As the stream, it stays on its processor.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    stream: Arc<Stream>,
    /// Cleared by `reunite`.
    shuts_down: bool,
}

/// The error of [`OwnedReadHalf::reunite`] for halves of different streams. It contains both halves.
#[derive(Debug)]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

impl fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the halves belong to different streams; reunite the halves of one into_split()",
        )
    }
}

impl Error for ReuniteError {}

impl Stream {
    /// Splits the stream into two owned halves, so that one operation can read and another can write.
    ///
    /// ```
    /// use phalanx::net::{IoTimeout, Stream};
    /// use phalanx::SharedStage;
    ///
    /// /// Copies bytes between the two streams, with one operation for each direction.
    /// async fn relay(stage: SharedStage<()>, from: Stream, to: Stream) {
    ///     let ((from_read, from_write), (to_read, to_write)) = (from.into_split(), to.into_split());
    ///     for (read, write) in [(from_read, to_write), (to_read, from_write)] {
    ///         let copy = stage.dispatch(move |_| async move {
    ///             let mut buffer = Vec::new();
    ///             while let Ok(1..) = read.read(&mut buffer, IoTimeout::NONE).await {
    ///                 match write.write(buffer, IoTimeout::NONE).await {
    ///                     Ok(empty) => buffer = empty,
    ///                     Err(_) => break,
    ///                 }
    ///             }
    ///             // Dropping the write half passes the end of the stream on.
    ///         });
    ///         copy.expect("the stage accepts operations");
    ///     }
    /// }
    /// ```
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        let stream = Arc::new(self);
        (OwnedReadHalf(Arc::clone(&stream)), OwnedWriteHalf { stream, shuts_down: true })
    }
}

impl AsRef<Stream> for OwnedReadHalf {
    /// The stream, for its options.
    fn as_ref(&self) -> &Stream {
        &self.0
    }
}

impl AsRef<Stream> for OwnedWriteHalf {
    /// The stream, for its options.
    fn as_ref(&self) -> &Stream {
        &self.stream
    }
}

impl OwnedReadHalf {
    /// Like [`Stream::read`].
    ///
    /// # Errors
    /// The errors of [`Stream::read`].
    pub async fn read(&self, buffer: &mut Vec<u8>, timeout: IoTimeout) -> io::Result<usize> {
        self.0.read(buffer, timeout).await
    }

    /// Like [`Stream::read_exact`].
    ///
    /// # Errors
    /// The errors of [`Stream::read_exact`].
    pub async fn read_exact(&self, buffer: &mut [u8], timeout: IoTimeout) -> io::Result<()> {
        self.0.read_exact(buffer, timeout).await
    }

    /// Like [`Stream::skip`].
    ///
    /// # Errors
    /// The errors of [`Stream::skip`].
    pub async fn skip(
        &self,
        skip: u64,
        buffer: &mut Vec<u8>,
        timeout: IoTimeout,
    ) -> io::Result<u64> {
        self.0.skip(skip, buffer, timeout).await
    }

    /// Like [`Stream::local_addr`].
    ///
    /// # Errors
    /// The errors of [`Stream::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Like [`Stream::peer_addr`].
    ///
    /// # Errors
    /// The errors of [`Stream::peer_addr`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// Recombines the two halves into a stream.
    ///
    /// ```
    /// use phalanx::net::{IoTimeout, ReuniteError, Stream};
    ///
    /// /// Writes from one half, and returns the stream.
    /// async fn greet(stream: Stream) -> Result<Stream, ReuniteError> {
    ///     let (read, write) = stream.into_split();
    ///     let _ = write.write(b"hello".to_vec(), IoTimeout::NONE).await;
    ///     read.reunite(write) // fails only for halves of different streams
    /// }
    /// # let _ = greet;
    /// ```
    ///
    /// # Errors
    /// [`ReuniteError`] if `write` is not the other half of the same stream.
    pub fn reunite(self, mut write: OwnedWriteHalf) -> Result<Stream, ReuniteError> {
        if !Arc::ptr_eq(&self.0, &write.stream) {
            return Err(ReuniteError(self, write));
        }
        write.shuts_down = false;
        drop(write);
        Ok(Arc::into_inner(self.0).expect("a stream has two halves"))
    }
}

impl OwnedWriteHalf {
    /// Like [`Stream::write`].
    ///
    /// # Errors
    /// The errors of [`Stream::write`].
    pub async fn write(
        &self,
        payload: impl Into<Payload>,
        timeout: IoTimeout,
    ) -> io::Result<Vec<u8>> {
        self.stream.write(payload, timeout).await
    }

    /// Like [`Stream::write_vectored`].
    ///
    /// # Errors
    /// The errors of [`Stream::write_vectored`].
    pub async fn write_vectored(
        &self,
        parts: impl IntoIterator<Item = Bytes>,
        timeout: IoTimeout,
    ) -> io::Result<()> {
        self.stream.write_vectored(parts, timeout).await
    }

    /// Like [`Stream::send_file`].
    ///
    /// # Errors
    /// The errors of [`Stream::send_file`].
    pub async fn send_file(
        &self,
        head: Vec<u8>,
        file: &File,
        offset: u64,
        length: u64,
        transfer: FileTransfer,
        timeout: IoTimeout,
    ) -> io::Result<SentFile> {
        self.stream.send_file(head, file, offset, length, transfer, timeout).await
    }

    /// Shuts down the write direction, so that the peer reads the end of the stream. Dropping the half does the same.
    ///
    /// # Errors
    /// The errors of [`Stream::shutdown`].
    pub fn shutdown(&self) -> io::Result<()> {
        self.stream.shutdown(std::net::Shutdown::Write)
    }

    /// Like [`Stream::local_addr`].
    ///
    /// # Errors
    /// The errors of [`Stream::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// Like [`Stream::peer_addr`].
    ///
    /// # Errors
    /// The errors of [`Stream::peer_addr`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.shuts_down {
            self.stream.0.shutdown_write();
        }
    }
}
