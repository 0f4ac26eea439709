//! A connection of one processor.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use phalanx_core::{now, sleep};
use phalanx_driver::{Address, Done, FileTransfer, Keepalive, Payload, Request};

use super::transfer::{Reading, Writing};
use crate::fs::File;
use crate::io::{HomeSocket, IoTimeout, Receive, SendPayload, request};

/// Time between two attempts to connect to a Unix listener whose backlog is full: the kernel reports to no
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
/// A stream, and a read or write that has begun, stay on the processor that accepted or opened the connection. Using it
/// on another processor, or after its program has ended, fails with [`Elsewhere`](super::Elsewhere); dropping it there
/// closes it on its own processor. It is `Send`, so that futures that hold it can be.
///
/// ```
/// use phalanx::net::{Bytes, IoTimeout, Stream};
/// use std::net::SocketAddr;
///
/// /// Requests the value of `key` from a server whose answers have a length of four bytes in front.
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
    /// As `connect(2)`, or [`IoTimeout`]'s.
    ///
    /// # Panics
    /// Outside a processor.
    pub async fn connect(address: SocketAddr, timeout: IoTimeout) -> io::Result<Self> {
        let stream = Self::open(address.into(), timeout).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Opens a connection to the Unix socket at `path`.
    ///
    /// # Errors
    /// As `connect(2)`, or [`IoTimeout`]'s. `InvalidInput` for a path that is empty or has more than 107 bytes or a zero
    /// byte, other than that of one of Linux's abstract names at its beginning.
    ///
    /// # Panics
    /// Outside a processor.
    pub async fn connect_unix(path: impl AsRef<Path>, timeout: IoTimeout) -> io::Result<Self> {
        let (address, began) = (Address::Unix(path.as_ref().to_owned()), now());
        loop {
            let left = timeout.remaining(now().saturating_sub(began));
            match Self::open(address.clone(), left).await {
                // The backlog of the listener is full. A blocking `connect(2)` would wait.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if left.duration().is_zero() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    sleep(BACKLOG_RETRY.min(left.duration())).await;
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

    /// Waits for bytes and appends them to `buffer`. Returns their number; zero is the end of the stream.
    ///
    /// One read appends at most one receive buffer, 8 KiB by default
    /// ([`Runtime::receive_buffers`](crate::Runtime::receive_buffers)). A waiting read holds no buffer: the driver lends it
    /// one when bytes arrive.
    /// Dropping the future may lose bytes that are just arriving; a `timeout` loses none.
    ///
    /// # Errors
    /// As `recv(2)`, or [`IoTimeout`]'s.
    pub fn read<'a>(
        &'a self,
        buffer: &'a mut Vec<u8>,
        timeout: IoTimeout,
    ) -> impl Future<Output = io::Result<usize>> + use<'a> {
        let receive = |socket| Receive { socket, max: usize::MAX };
        Reading { received: self.0.request(receive, timeout), buffer }
    }

    /// Fills `buffer`. Leaves the bytes that follow for the next read.
    ///
    /// The `timeout` applies to the whole call. After an error, and when the future is dropped, bytes that were read are
    /// lost.
    ///
    /// # Errors
    /// `UnexpectedEof` if the stream ends before `buffer` is full; else as [`read`](Self::read).
    pub async fn read_exact(&self, buffer: &mut [u8], timeout: IoTimeout) -> io::Result<()> {
        let (mut filled, start) = (0, now());
        while filled < buffer.len() {
            let remaining = timeout.remaining(now().saturating_sub(start));
            match self.read_some(&mut buffer[filled..], remaining).await? {
                0 => {
                    let what = format!("the stream ended after {filled} of {} bytes", buffer.len());
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
                }
                count => filled += count,
            }
        }
        Ok(())
    }

    /// Waits for bytes and copies them to the start of `buffer`, which is not empty. Returns their number; zero is the
    /// end of the stream.
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

    /// Waits for bytes as [`read`](Stream::read) does, but discards the first `skip` of them, and returns how many it
    /// discarded. Bytes that arrived after them may be appended to `buffer`. Returns zero at the end of the stream.
    ///
    /// With the poll driver on Linux the kernel drops the bytes of a TCP stream without a copy, which is cheaper than a
    /// read; elsewhere the cost is that of a read.
    ///
    /// # Errors
    /// As [`read`](Stream::read).
    ///
    /// # Panics
    /// If `skip` is zero, since the result would be that of the end of the stream.
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

    /// Sends all of `payload`: bytes, or a head and then a body. Returns the head's memory, cleared for reuse.
    ///
    /// # Errors
    /// As `send(2)`, or [`IoTimeout`]'s. After an error it is unknown how much was sent.
    pub fn write<'a, P: Into<Payload>>(
        &'a self,
        payload: P,
        timeout: IoTimeout,
    ) -> impl Future<Output = io::Result<Vec<u8>>> + use<'a, P> {
        let payload = payload.into();
        let send = |socket| SendPayload { socket, payload };
        Writing { stream: &self.0, sending: self.0.send(send, timeout) }
    }

    /// Sends all of `parts` in order, without copying them together: up to 16 of them in one system call.
    ///
    /// # Errors
    /// As [`write`](Self::write).
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

    /// Sends all of `head`, then up to `length` bytes of `file` from `offset`. The kernel copies them from its page
    /// cache, or with [`FileTransfer::ZeroCopy`] sends its own pages; they do not pass through the program. Ends early at the end of the file, and where it would have to wait
    /// for a disk, possibly at once. The caller then reads and [writes](Self::write) the missing bytes. How much is sent
    /// depends on the system.
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
    ///             return Err(std::io::ErrorKind::UnexpectedEof.into()); // truncated meanwhile
    ///         }
    ///         sent += more.len() as u64;
    ///         stream.write(Bytes::from(more), IoTimeout::NONE).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// As `send(2)`, or [`IoTimeout`]'s. `UnexpectedEof` if the file is truncated during a copy, of which the last bytes
    /// may then be zeros; `EINVAL` for a range that ends beyond 2⁶³ bytes. After an error it is unknown how much was sent.
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

    /// Offers the connection to the other processors. True if it has moved: then drop the stream, on which every request
    /// now fails with `EBADF`. A move closes nothing: the listener of the other processor on the same address accepts the
    /// connection, as if the client had just connected, and the operation that serves it there starts from the beginning.
    /// So call this between two requests, when nothing of the connection has to be remembered, and all bytes that were
    /// read are answered.
    ///
    /// Connections gather on one processor while one core can do the work, and spread when it cannot and another core is
    /// idle. Only connections that a [`Listener`](super::Listener) of an IP address has accepted move. An offer costs a
    /// few instructions while none should.
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
    /// The connection is accepted again before or after it is dropped here. A server that limits its connections passes the
    /// permit of the connection by [`offer_with`](Self::offer_with), so that it is neither counted twice nor missing.
    #[must_use = "the operation of a connection that has moved must end"]
    pub fn offer(&self) -> bool {
        self.0.relocate(|| None)
    }

    /// [Offers](Self::offer) a connection with state, which the other processor [takes](Self::take_state). `state` is
    /// called if the connection moves. It must contain all that has to be remembered, received bytes included.
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

    /// Whether another processor should serve the connection: this one is inactive, or has too many. [Offer](Self::offer_with)
    /// it then once nothing of it is in progress. Always false in a program that never had an inactive processor.
    ///
    /// For connections that have to be brought to a stop before they can move. Others are just offered.
    pub fn should_move(&self) -> bool {
        self.0.should_move()
    }

    /// The state with which another processor has [offered](Self::offer_with) the connection, once. None if it has not
    /// moved, or if the state is of another type.
    pub fn take_state<S: 'static>(&mut self) -> Option<S> {
        self.0.take_state()
    }

    /// Whether another processor has served the connection, and has [offered](Self::offer) it.
    pub fn has_moved(&self) -> bool {
        self.0.has_moved()
    }

    /// Whether nothing has arrived that was not read: no bytes, no end and no error. A client may use such
    /// a connection again. On another one, it would take the bytes that have arrived for the answer to its next request.
    ///
    /// ```
    /// use phalanx::net::Stream;
    ///
    /// fn take(unused: &mut Vec<Stream>) -> Option<Stream> {
    ///     std::iter::from_fn(|| unused.pop()).find(Stream::is_quiet)
    /// }
    /// # let _ = take;
    /// ```
    pub fn is_quiet(&self) -> bool {
        self.0.driver(|driver, socket| Ok(driver.is_quiet(socket))).unwrap_or(false)
    }

    /// Whether the peer has closed its sending direction, or the connection is broken. Bytes that were not read may
    /// precede the end. A server that works on a request may look from time to time, and stop if nobody waits for the
    /// response.
    pub fn is_closed_by_peer(&self) -> bool {
        self.0.driver(|driver, socket| Ok(driver.is_closed_by_peer(socket))).unwrap_or(true)
    }

    /// Shuts down one or both directions. After the write direction, the peer reads the end of the stream.
    ///
    /// # Errors
    /// As `shutdown(2)`.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.driver(|driver, socket| driver.shutdown(socket, how))
    }

    /// Enables or disables `TCP_NODELAY`. Connections that a [`Listener`](super::Listener) of [`bind`](super::bind())
    /// accepts, and those of [`connect`](Self::connect), have it enabled: each write is sent at once.
    ///
    /// # Errors
    /// As `setsockopt(2)`; a Unix stream does not have the option.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.driver(|driver, socket| driver.set_nodelay(socket, nodelay))
    }

    /// Enables or disables `TCP_CORK`: bytes that do not fill a segment wait for more, for the end of the stream, or for
    /// 200 ms. Enabled before the last write, it lets the end of the stream leave in the segment of the last bytes. Only
    /// Linux has it; elsewhere nothing changes.
    ///
    /// # Errors
    /// As `setsockopt(2)`; a Unix stream does not have the option.
    pub fn set_cork(&self, cork: bool) -> io::Result<()> {
        self.0.driver(|driver, socket| driver.set_cork(socket, cork))
    }

    /// Enables TCP keepalive, or disables it, which is the default.
    ///
    /// ```
    /// use phalanx::net::{IoTimeout, Keepalive, Listener, Stream, bind};
    /// use std::time::Duration;
    ///
    /// #[phalanx::main(processors = 1)]
    /// async fn main() -> std::io::Result<()> {
    ///     # let listener = Listener::new(bind("127.0.0.1:0".parse().unwrap(), 1)?.remove(0))?;
    ///     # let address = listener.local_addr()?;
    ///     let stream = Stream::connect(address, IoTimeout::after(Duration::from_secs(5))).await?;
    ///     // Notices within 90 s that the peer is gone, even if nothing is sent.
    ///     let (idle, interval) = (Duration::from_secs(60), Duration::from_secs(10));
    ///     stream.set_keepalive(Some(Keepalive { idle, interval, count: 3 }))?;
    ///     stream.set_nodelay(false)?; // small writes may wait for the acknowledgement of earlier ones
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// As `setsockopt(2)`; a Unix stream does not have the option.
    pub fn set_keepalive(&self, keepalive: Option<Keepalive>) -> io::Result<()> {
        self.0.driver(|driver, socket| driver.set_keepalive(socket, keepalive))
    }

    /// The local address.
    ///
    /// # Errors
    /// As `getsockname(2)`; `Unsupported` for a Unix stream.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.driver(|driver, socket| driver.local_addr(socket))
    }

    /// The peer's address.
    ///
    /// # Errors
    /// As `getpeername(2)`; `Unsupported` for a Unix stream.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.driver(|driver, socket| driver.peer_addr(socket))
    }
}
