//! A connection of one processor.

use std::io;
use std::net::{Shutdown, SocketAddr};

use phalanx_driver::{Done, Payload, Request};

use crate::fs::File;
use crate::io::{HomeSocket, IoTimeout, request};

/// What [`Stream::send_file`] came to.
#[derive(Debug)]
pub struct SentFile {
    /// The head's memory, empty, for the next one.
    pub head: Vec<u8>,
    /// So many bytes of the file were sent.
    pub bytes: u64,
}

/// A TCP connection of this processor. Dropping it closes it.
///
/// It stays on the processor that accepted or connected it, and so does a read or write that has
/// begun. Used on another processor, or after its program has ended, it is an
/// [`Elsewhere`](crate::net::Elsewhere); dropped there, it is closed by its own processor. It is `Send`, so
/// that it may be a part of futures that have to be.
pub struct Stream(pub(super) HomeSocket);

impl Stream {
    /// Connects to `address`.
    ///
    /// # Errors
    /// As `connect(2)`, or [`IoTimeout`]'s.
    pub async fn connect(address: SocketAddr, timeout: IoTimeout) -> io::Result<Self> {
        match request(Request::Connect { address: address.into() }, timeout).await? {
            Done::Connected(socket) => {
                let stream = Self(HomeSocket::new(socket));
                stream.0.driver(|driver, socket| driver.set_nodelay(socket, true))?;
                Ok(stream)
            }
            other => unreachable!("connect came to {other:?}"),
        }
    }

    /// Waits for bytes and appends them to `buffer`. Returns how many; zero is the end.
    ///
    /// A connection that waits here holds no buffer: it is lent one when bytes arrive. Dropping the
    /// future while it waits may lose bytes that are just arriving; a limit by `timeout` loses none.
    ///
    /// # Errors
    /// As `recv(2)`, or [`IoTimeout`]'s.
    pub async fn read(&self, buffer: &mut Vec<u8>, timeout: IoTimeout) -> io::Result<usize> {
        match self.0.request(|socket| Request::Receive { socket, max: usize::MAX }, timeout).await?
        {
            Done::Received(chunk) => {
                buffer.extend_from_slice(&chunk);
                Ok(chunk.len())
            }
            other => unreachable!("receive came to {other:?}"),
        }
    }

    /// Waits for bytes as [`read`](Stream::read) does, but leaves out the first `skip` of what comes,
    /// and says how many it has left out. What comes behind them may be appended to `buffer`, if they
    /// came to an end. Neither happens at the end of the stream. `skip` is more than none.
    ///
    /// With the poll driver on Linux the kernel drops them without a copy, so this is cheaper than to
    /// read and forget; elsewhere it is no dearer.
    ///
    /// # Errors
    /// As [`read`](Stream::read).
    pub async fn skip(
        &self,
        skip: u64,
        buffer: &mut Vec<u8>,
        timeout: IoTimeout,
    ) -> io::Result<u64> {
        debug_assert!(skip > 0, "nothing to skip: read");
        match self.0.request(|socket| Request::Skip { socket, max: skip }, timeout).await? {
            Done::Skipped(bytes) => Ok(bytes),
            Done::Received(chunk) => {
                let skipped =
                    usize::try_from(skip).map_or(chunk.len(), |skip| skip.min(chunk.len()));
                buffer.extend_from_slice(&chunk[skipped..]);
                Ok(skipped as u64)
            }
            other => unreachable!("skip came to {other:?}"),
        }
    }

    /// Sends all of `payload`: plain bytes, or a head and then a body. Returns the head's memory, empty, for
    /// the next one.
    ///
    /// # Errors
    /// As `send(2)`, or [`IoTimeout`]'s. What was sent before an error is not known.
    pub async fn write(
        &self,
        payload: impl Into<Payload>,
        timeout: IoTimeout,
    ) -> io::Result<Vec<u8>> {
        let payload = payload.into();
        match self.0.request(|socket| Request::Send { socket, payload }, timeout).await? {
            Done::Sent(head) => Ok(head),
            other => unreachable!("send came to {other:?}"),
        }
    }

    /// Sends all of `head`, and behind it up to `length` bytes of `file` from `offset`, copied by the kernel
    /// from its own memory of the file: no byte of it comes into the program's. It ends early where the file
    /// does, and where going on would wait for a disk, even at once; what is missing is then to be read
    /// and [written](Self::write). How much that is, and where it is more than none, depends on the
    /// system: it may be all.
    ///
    /// ```no_run
    /// use phalanx::fs::File;
    /// use phalanx::net::{Bytes, IoTimeout, Stream};
    ///
    /// async fn serve(stream: &Stream, file: &File, length: u64) -> std::io::Result<()> {
    ///     let mut sent = stream.send_file(b"here: ".to_vec(), file, 0, length, IoTimeout::NONE).await?.bytes;
    ///     while sent < length {
    ///         let more = file.read_at(sent, (length - sent).min(65536) as usize).await?;
    ///         if more.is_empty() {
    ///             return Err(std::io::ErrorKind::UnexpectedEof.into()); // cut off meanwhile
    ///         }
    ///         sent += more.len() as u64;
    ///         stream.write(Bytes::from(more), IoTimeout::NONE).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// As `send(2)`, or [`IoTimeout`]'s. `UnexpectedEof` when the file was cut off in the very moment in which
    /// it was copied; `EINVAL` for what lies beyond any file's end, 2⁶³ bytes. What was sent before an
    /// error is not known.
    pub async fn send_file(
        &self,
        head: Vec<u8>,
        file: &File,
        offset: u64,
        length: u64,
        timeout: IoTimeout,
    ) -> io::Result<SentFile> {
        let file = file.0.clone();
        let send = |socket| Request::SendFile { socket, head, file, offset, length };
        match self.0.request(send, timeout).await? {
            Done::SentFile { head, bytes } => Ok(SentFile { head, bytes }),
            other => unreachable!("sending a file came to {other:?}"),
        }
    }

    /// Says that nothing more will be sent, or received.
    ///
    /// # Errors
    /// As `shutdown(2)`.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.driver(|driver, socket| driver.shutdown(socket, how))
    }

    /// The other end's address.
    ///
    /// # Errors
    /// As `getpeername(2)`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.driver(|driver, socket| driver.peer_addr(socket))
    }
}
