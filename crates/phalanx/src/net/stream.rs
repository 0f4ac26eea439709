//! A connection of one processor.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use phalanx_core::{now, sleep};
use phalanx_driver::{Address, Done, FileTransfer, Payload, Request};

use super::transfer::{Reading, WriteFuture};
use crate::fs::File;
use crate::io::{HomeSocket, IoTimeout, Receive, SendPayload, request};

/// The time between two attempts to connect to a Unix listener whose backlog is full. The kernel does not notify a
/// non-blocking socket when the backlog has room.
const BACKLOG_RETRY: Duration = Duration::from_millis(5);

/// The result of [`Stream::send_file`].
#[derive(Debug)]
pub struct SentFile {
    /// The head's memory, cleared for reuse.
    pub head: Vec<u8>,
    /// The number of bytes of the file that were sent.
    pub bytes: u64,
}

/// A TCP or Unix stream connection of this processor. Dropping it closes the connection.
///
/// A stream belongs to the processor that accepted or opened the connection, and so do reads and writes that have
/// begun. Using it on another processor, or after its program has ended, fails with [`OwnerError`](super::OwnerError).
/// It can be dropped anywhere. It is `Send`, so that futures that contain it can be `Send`.
///
/// ```
/// use phalanx::net::{Bytes, IoTimeout, Stream};
/// use std::net::SocketAddr;
///
/// /// Requests the value of `key` from a server that sends a length of four bytes before each answer.
/// async fn get(server: SocketAddr, key: Bytes, timeout: IoTimeout) -> std::io::Result<Vec<u8>> {
///     let stream = Stream::connect(server, timeout).await?;
///     stream.write_vectored([Bytes::from("get "), key, Bytes::from("\n")], timeout).await?;
///     let mut length = [0; 4];
///     stream.read_exact(&mut length, timeout).await?;
///     let mut value = vec![0; u32::from_be_bytes(length).min(1 << 20) as usize];
///     stream.read_exact(&mut value, timeout).await?;
///     Ok(value)
/// }
/// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// # let server = listener.local_addr()?;
/// # std::thread::spawn(move || {
/// #     use std::io::{Read, Write};
/// #     let mut client = listener.accept().unwrap().0;
/// #     let mut request = [0; 8];
/// #     client.read_exact(&mut request).unwrap();
/// #     assert_eq!(&request, b"get one\n");
/// #     client.write_all(&[0, 0, 0, 3, b'1', b'.', b'0']).unwrap();
/// # });
/// # let mut graph = phalanx::Graph::new();
/// # let stage = graph.shared("client", ());
/// # phalanx::Runtime::new().processors(1).run(graph, |start| {
/// #     let control = start.control();
/// #     stage.dispatch(move |_| async move {
/// #         let value = get(server, "one".into(), IoTimeout::NONE).await.unwrap();
/// #         assert_eq!(value, b"1.0");
/// #         control.drain();
/// #     })?;
/// #     Ok(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Stream(pub(super) HomeSocket);

impl Stream {
    /// Opens a TCP connection to `address`, with `TCP_NODELAY` set.
    ///
    /// # Errors
    /// The errors of `connect(2)` and of [`IoTimeout`].
    ///
    /// # Panics
    /// If called outside a processor.
    pub async fn connect(address: SocketAddr, timeout: IoTimeout) -> io::Result<Self> {
        let stream = Self::open(address.into(), timeout).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Opens a connection to the Unix socket at `path`.
    ///
    /// # Errors
    /// The errors of `connect(2)` and of [`IoTimeout`]. `InvalidInput` for a path that is empty, has more than 107
    /// bytes, or contains a zero byte, except at the beginning of one of Linux's abstract names.
    ///
    /// # Panics
    /// If called outside a processor.
    pub async fn connect_unix(path: impl AsRef<Path>, timeout: IoTimeout) -> io::Result<Self> {
        let (address, start) = (Address::Unix(path.as_ref().to_owned()), now());
        loop {
            let remaining = timeout.remaining(now().saturating_sub(start));
            match Self::open(address.clone(), remaining).await {
                // The backlog of the listener is full. A blocking `connect(2)` would wait.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if remaining.duration().is_zero() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    sleep(BACKLOG_RETRY.min(remaining.duration())).await;
                }
                opened => return opened,
            }
        }
    }

    async fn open(address: Address, timeout: IoTimeout) -> io::Result<Self> {
        match request(Request::Connect { address }, timeout).await? {
            Done::Connected(socket) => Ok(Self(HomeSocket::new(socket))),
            other => unreachable!("connect completed with {other:?}"),
        }
    }

    /// Waits for bytes and appends them to `buffer`. Returns their number; zero means the end of the stream.
    ///
    /// One read appends at most one receive buffer, 8 KiB by default
    /// ([`Runtime::receive_buffers`](crate::Runtime::receive_buffers)). A waiting read holds no buffer: the driver
    /// lends it one when bytes arrive. Dropping the future may lose bytes that are just arriving; a `timeout` does not.
    ///
    /// # Errors
    /// The errors of `recv(2)` and of [`IoTimeout`].
    pub fn read<'a>(
        &'a self,
        buffer: &'a mut Vec<u8>,
        timeout: IoTimeout,
    ) -> impl Future<Output = io::Result<usize>> + use<'a> {
        let receive = |socket| Receive { socket, max: usize::MAX };
        Reading { received: self.0.request(receive, timeout), buffer }
    }

    /// Reads exactly as many bytes as fill `buffer`. Further bytes are left for the next read.
    ///
    /// The `timeout` applies to the whole call. If the call fails or is dropped, bytes that were already read are lost.
    ///
    /// # Errors
    /// `UnexpectedEof` if the stream ends before `buffer` is full; otherwise the errors of [`read`](Self::read).
    pub async fn read_exact(&self, buffer: &mut [u8], timeout: IoTimeout) -> io::Result<()> {
        let (mut filled, start) = (0, now());
        while filled < buffer.len() {
            let remaining = timeout.remaining(now().saturating_sub(start));
            match self.read_some(&mut buffer[filled..], remaining).await? {
                0 => {
                    let message =
                        format!("the stream ended after {filled} of {} bytes", buffer.len());
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
                }
                count => filled += count,
            }
        }
        Ok(())
    }

    /// Waits for bytes and copies them to the start of `buffer`, which must not be empty. Returns their number; zero
    /// means the end of the stream.
    pub(crate) async fn read_some(
        &self,
        buffer: &mut [u8],
        timeout: IoTimeout,
    ) -> io::Result<usize> {
        let receive = |socket| Receive { socket, max: buffer.len() };
        match self.0.request(receive, timeout).await? {
            Done::Received(chunk) => {
                buffer[..chunk.len()].copy_from_slice(&chunk);
                Ok(chunk.len())
            }
            other => unreachable!("receive completed with {other:?}"),
        }
    }

    /// Waits for bytes like [`read`](Stream::read), but discards up to `skip` of them and returns the number discarded.
    /// Bytes that arrived after those may be appended to `buffer`. Returns zero at the end of the stream.
    ///
    /// With the poll driver on Linux, the kernel discards the bytes of a TCP stream without copying them, which is
    /// cheaper than a read. Elsewhere it costs as much as a read.
    ///
    /// # Errors
    /// The errors of [`read`](Stream::read).
    ///
    /// # Panics
    /// If `skip` is zero, because the result could not be distinguished from the end of the stream.
    pub async fn skip(
        &self,
        skip: u64,
        buffer: &mut Vec<u8>,
        timeout: IoTimeout,
    ) -> io::Result<u64> {
        assert!(skip > 0, "nothing to skip; use read");
        match self.0.request(|socket| Request::Skip { socket, max: skip }, timeout).await? {
            Done::Skipped(bytes) => Ok(bytes),
            Done::Received(chunk) => {
                let skipped =
                    usize::try_from(skip).map_or(chunk.len(), |skip| skip.min(chunk.len()));
                buffer.extend_from_slice(&chunk[skipped..]);
                Ok(skipped as u64)
            }
            other => unreachable!("skip completed with {other:?}"),
        }
    }

    /// Sends all of `payload`: a sequence of bytes, or a head followed by a body. Returns the head's memory for reuse.
    ///
    /// # Errors
    /// The errors of `send(2)` and of [`IoTimeout`]. After an error it is unknown how much was sent.
    pub fn write<'a, P: Into<Payload>>(
        &'a self,
        payload: P,
        timeout: IoTimeout,
    ) -> impl Future<Output = io::Result<Vec<u8>>> + use<'a, P> {
        let payload = payload.into();
        let send = |socket| SendPayload { socket, payload };
        WriteFuture { stream: &self.0, sending: self.0.send(send, timeout) }
    }

    /// Sends all of `parts` in order, without copying them into one buffer. One system call sends up to 16 parts.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write).
    pub async fn write_vectored(
        &self,
        parts: impl IntoIterator<Item = Bytes>,
        timeout: IoTimeout,
    ) -> io::Result<()> {
        let parts = parts.into_iter().collect();
        match self.0.send(|socket| Request::SendVectored { socket, parts }, timeout).await? {
            Done::Sent(_) => Ok(()),
            other => unreachable!("send completed with {other:?}"),
        }
    }

    /// Sends all of `head`, then up to `length` bytes of `file` from `offset`. The kernel copies the bytes from its
    /// page cache, or sends the cached pages themselves with [`FileTransfer::ZeroCopy`]; they do not pass through the
    /// program. The method stops early at the end of the file and where it would have to wait for a disk, possibly
    /// before the first byte. The caller must then read the missing bytes and [write](Self::write) them. How much is
    /// sent depends on the system.
    ///
    /// ```no_run
    /// use phalanx::fs::File;
    /// use phalanx::net::{Bytes, FileTransfer, IoTimeout, Stream};
    ///
    /// async fn serve(stream: &Stream, file: &File, length: u64) -> std::io::Result<()> {
    ///     let (head, copy) = (b"here: ".to_vec(), FileTransfer::Copy);
    ///     let mut sent = stream.send_file(head, file, 0, length, copy, IoTimeout::NONE).await?.bytes;
    ///     while sent < length {
    ///         let more = file.read_at(sent, (length - sent).min(65536) as usize).await?;
    ///         if more.is_empty() {
    ///             return Err(std::io::ErrorKind::UnexpectedEof.into()); // the file was truncated
    ///         }
    ///         sent += more.len() as u64;
    ///         stream.write(Bytes::from(more), IoTimeout::NONE).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// The errors of `send(2)` and of [`IoTimeout`]. `UnexpectedEof` if the file is truncated during the transfer,
    /// whose last bytes may then be zeros; `EINVAL` for a range that ends beyond 2⁶³ bytes. After an error, it is
    /// unknown how much was sent.
    pub async fn send_file(
        &self,
        head: Vec<u8>,
        file: &File,
        offset: u64,
        length: u64,
        transfer: FileTransfer,
        timeout: IoTimeout,
    ) -> io::Result<SentFile> {
        let file = file.0.clone();
        let send = |socket| Request::SendFile { socket, head, file, offset, length, transfer };
        match self.0.send(send, timeout).await? {
            Done::SentFile { head, bytes } => Ok(SentFile { head, bytes }),
            other => unreachable!("sending a file completed with {other:?}"),
        }
    }

    /// Offers the connection to the other processors. Returns `true` if the connection has moved; then drop the stream,
    /// on which every request now fails with `EBADF`. A move does not close the connection. The listener of the other
    /// processor on the same address accepts it as if the client had just connected, and the operation that serves it
    /// there starts from the beginning. So call this only between two requests, when the connection has no state and
    /// all bytes that were read have been answered.
    ///
    /// The runtime gathers connections on one processor while one core can do the work, and spreads them when it cannot
    /// and another core is idle. Only connections that a [`Listener`](super::Listener) of an IP address has accepted
    /// can move. If no connection should move, an offer costs only a few instructions.
    ///
    /// ```
    /// use phalanx::net::{IoTimeout, Stream};
    ///
    /// async fn echo(stream: Stream) -> std::io::Result<()> {
    ///     let mut bytes = Vec::new();
    ///     while stream.read(&mut bytes, IoTimeout::NONE).await? > 0 {
    ///         bytes = stream.write(bytes, IoTimeout::NONE).await?;
    ///         if stream.offer() {
    ///             break;
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// The other processor may accept the connection before or after it is dropped here. A server that limits its
    /// connections should therefore pass the connection's permit with [`offer_with`](Self::offer_with), so that the
    /// connection is always counted exactly once.
    #[must_use = "the operation of a connection that has moved must end"]
    pub fn offer(&self) -> bool {
        self.0.relocate(|| None)
    }

    /// [Offers](Self::offer) a connection together with its state, which the other processor [takes](Self::take_state).
    /// `state` is called if the connection moves. It must return all that the other processor needs, including received
    /// bytes.
    ///
    /// ```
    /// use phalanx::net::{IoTimeout, Stream};
    ///
    /// /// Answers each message with the number of messages so far.
    /// async fn count(mut stream: Stream) -> std::io::Result<()> {
    ///     let mut count: u64 = stream.take_state().unwrap_or(0);
    ///     let mut bytes = Vec::new();
    ///     while stream.read(&mut bytes, IoTimeout::NONE).await? > 0 {
    ///         count += 1;
    ///         bytes = stream.write(count.to_string().into_bytes(), IoTimeout::NONE).await?;
    ///         if stream.offer_with(|| count) {
    ///             break;
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// # let _ = count;
    /// ```
    #[must_use = "the operation of a connection that has moved must end"]
    pub fn offer_with<S: Send + 'static>(&self, state: impl FnOnce() -> S) -> bool {
        self.0.relocate(|| Some(Box::new(state())))
    }

    /// Whether another processor should serve the connection. If so, [offer](Self::offer_with) the connection once no
    /// request on it is in progress.
    ///
    /// This processor may be inactive, or use a whole core while another core is idle. Or the connection uses state of
    /// the processor `near`, which stays there, and one core can do the work of both processors. A connection that uses
    /// state of this processor stays, unless the number of active processors has changed.
    ///
    /// Use it for connections that must be paused before they can move. Others can simply be offered.
    pub fn should_move(&self, near: Option<usize>) -> bool {
        self.0.should_move(near)
    }

    /// Takes the state with which another processor has [offered](Self::offer_with) the connection. Returns `None` if
    /// the connection has not moved, if the state was already taken, or if it is of another type.
    pub fn take_state<S: 'static>(&mut self) -> Option<S> {
        self.0.take_state()
    }

    /// Whether another processor has served the connection before and has [offered](Self::offer) it.
    pub fn has_moved(&self) -> bool {
        self.0.has_moved()
    }

    /// Whether nothing unread has arrived: no bytes, no end of the stream and no error. A client may only reuse a
    /// connection in this state. Otherwise it would mistake unread bytes for the response to its next request.
    ///
    /// ```
    /// use phalanx::net::Stream;
    ///
    /// fn take(unused: &mut Vec<Stream>) -> Option<Stream> {
    ///     std::iter::from_fn(|| unused.pop()).find(Stream::is_idle)
    /// }
    /// # let _ = take;
    /// ```
    pub fn is_idle(&self) -> bool {
        self.0.driver(|driver, socket| Ok(driver.is_idle(socket))).unwrap_or(false)
    }

    /// Whether the peer has shut down its write direction or the connection is broken. There may still be unread bytes
    /// before the end. During a long request, a server can check this from time to time, and stop if nobody waits.
    pub fn is_closed_by_peer(&self) -> bool {
        self.0.driver(|driver, socket| Ok(driver.is_closed_by_peer(socket))).unwrap_or(true)
    }

    /// Shuts down one or both directions. Shutting down the write direction lets the peer read the end of the stream.
    ///
    /// # Errors
    /// The errors of `shutdown(2)`.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.driver(|driver, socket| driver.shutdown(socket, how))
    }

    /// The local address.
    ///
    /// # Errors
    /// The errors of `getsockname(2)`; `Unsupported` for a Unix stream.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.driver(|driver, socket| driver.local_addr(socket))
    }

    /// The peer's address.
    ///
    /// # Errors
    /// The errors of `getpeername(2)`; `Unsupported` for a Unix stream.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.driver(|driver, socket| driver.peer_addr(socket))
    }
}
