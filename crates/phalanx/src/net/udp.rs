//! UDP sockets of one processor.

use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use phalanx_driver::{Datagram, DatagramBatch, Done, Driver, Endpoint, Request, Socket};
use rustix::io::Errno;

use crate::io::{HomeSocket, IoTimeout, with};
use crate::lock::lock;

/// The maximum size of a datagram, which bounds the buffer of a receive.
const MAX_DATAGRAM_BYTES: usize = 65_535;

/// A UDP socket of this processor. Dropping it closes the socket.
///
/// Datagrams may be lost, duplicated or reordered by the network. Only one receive may wait at a time; a second one
/// fails with `ResourceBusy`. Any number of operations may send at the same time; the order is unspecified.
///
/// The kernel's receive buffer is bounded (`net.core.rmem_default`, about 208 KiB on Linux). When it is full, the
/// kernel drops datagrams and [counts](Self::drops) them. A waiting receive holds a buffer as long as the one that it
/// was given, up to 64 KiB.
///
/// Like a [`Stream`](super::Stream), the socket belongs to its processor. For a server on several processors, see
/// [`bind_udp`](super::bind_udp).
///
/// ```
/// use phalanx::net::{IoTimeout, UdpSocket};
/// use phalanx::{Graph, Runtime};
///
/// let mut graph = Graph::new();
/// let echo = graph.shared("echo", ());
/// Runtime::new().processors(1).run(graph, |start| {
///     let control = start.control();
///     let server = UdpSocket::bind("127.0.0.1:0".parse().unwrap())?;
///     let client = UdpSocket::bind("127.0.0.1:0".parse().unwrap())?;
///     client.connect(server.local_addr()?)?;
///     echo.dispatch(move |_| async move {
///         let mut buffer = [0; 1500];
///         let datagram = server.recv_from(&mut buffer, IoTimeout::NONE).await.unwrap();
///         let answer = buffer[..datagram.length].to_vec();
///         server.send_to(answer, datagram.from, IoTimeout::NONE).await.unwrap();
///     })?;
///     echo.dispatch(move |_| async move {
///         client.send("hello", IoTimeout::NONE).await.unwrap();
///         let mut buffer = [0; 4];
///         let datagram = client.recv(&mut buffer, IoTimeout::NONE).await.unwrap();
///         assert_eq!((&buffer, datagram.truncated), (b"hell", true));
///         control.drain();
///     })?;
///     Ok(())
/// })?;
/// # Ok::<(), phalanx::runtime::RunError>(())
/// ```
#[derive(Debug)]
pub struct UdpSocket {
    socket: HomeSocket,
    /// The buffer of the last receive, for reuse. One is enough, because only one receive may wait at a time.
    spare: Mutex<Vec<u8>>,
    /// Whether the kernel can divide the bytes of a send into datagrams.
    has_segments: AtomicBool,
}

/// A datagram that [`UdpSocket::recv_from`] received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The number of bytes in the buffer. Zero means an empty datagram.
    pub length: usize,
    /// The sender.
    pub from: SocketAddr,
    /// Whether the datagram was longer than the buffer, so that its end was lost.
    pub truncated: bool,
}

impl UdpSocket {
    /// Creates a socket on this processor and binds it to `address`. Port 0 selects a free port.
    ///
    /// # Errors
    /// The errors of `socket(2)` and `bind(2)`.
    ///
    /// # Panics
    /// If called outside a processor.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::open(|driver| driver.bind_udp(address))
    }

    /// Moves a bound socket to this processor, such as a [`std::net::UdpSocket`].
    ///
    /// # Errors
    /// The driver's error if it cannot register the socket.
    ///
    /// # Panics
    /// If called outside a processor.
    pub fn new(socket: impl Into<Endpoint>) -> io::Result<Self> {
        let socket = socket.into();
        Self::open(|driver| driver.adopt(socket))
    }

    fn open(open: impl FnOnce(&mut dyn Driver) -> io::Result<Socket>) -> io::Result<Self> {
        let opened = |driver: &mut dyn Driver| {
            let socket = open(driver)?;
            Ok((socket, driver.has_segments(socket)))
        };
        let (socket, has_segments) = with(|io| io.try_driver(opened))?;
        let (spare, has_segments) = (Mutex::default(), AtomicBool::new(has_segments));
        Ok(Self { socket: HomeSocket::datagrams(socket), spare, has_segments })
    }

    /// Makes the kernel pass packets that may begin a QUIC connection only to sockets of [active
    /// processors](crate::runtime::ActiveProcessors), now and after each change of their number. This socket is one of
    /// a group of `sockets` from [`bind_quic`](super::bind_quic()), of which socket `i` belongs to processor `i`. The
    /// call has an effect only on the first processor. All other packets still go to the socket that their connection ID
    /// names.
    ///
    /// A server that issues connection IDs for its own processor keeps its connections. If its processor becomes
    /// inactive during a handshake, one more packet of the handshake may be lost.
    pub fn steer_connections(&self, sockets: u16) {
        self.socket.steer_connections(sockets);
    }

    /// Connects the socket to `peer`: it then receives datagrams only from `peer`, and [`send`](Self::send) sends
    /// there. This sends nothing.
    ///
    /// # Errors
    /// The errors of `connect(2)`.
    pub fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        self.socket.driver(|driver, socket| driver.connect_udp(socket, peer))
    }

    /// Sends a datagram to the address to which the socket is [connected](Self::connect).
    ///
    /// # Errors
    /// The errors of `send(2)` and of [`IoTimeout`], such as `EDESTADDRREQ` if the socket is not connected, `EMSGSIZE`
    /// for a datagram of more than 65,507 bytes, and `ConnectionRefused` if the peer's host rejected an earlier
    /// datagram.
    pub async fn send(&self, datagram: impl Into<Bytes>, timeout: IoTimeout) -> io::Result<()> {
        self.send_datagram(datagram.into(), (None, None), timeout).await
    }

    /// Sends a datagram to `to`.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send).
    pub async fn send_to(
        &self,
        datagram: impl Into<Bytes>,
        to: SocketAddr,
        timeout: IoTimeout,
    ) -> io::Result<()> {
        self.send_datagram(datagram.into(), (Some(to), None), timeout).await
    }

    /// Divides `bytes` into up to 64 datagrams of `segment` bytes, of which the last may be shorter, and sends them to
    /// `to`. This takes one system call if the kernel and the network device support it, otherwise one per datagram.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send). The first datagrams may have been sent.
    ///
    /// # Panics
    /// If `segment` is zero.
    pub async fn send_segments(
        &self,
        bytes: impl Into<Bytes>,
        segment: u16,
        to: SocketAddr,
        timeout: IoTimeout,
    ) -> io::Result<()> {
        let (mut bytes, segment_bytes) = (bytes.into(), usize::from(segment));
        assert!(segment > 0, "the size of a segment must be above zero");
        let mut is_refused = false;
        if bytes.len() > segment_bytes && self.has_segments.load(Ordering::Relaxed) {
            let to = (Some(to), Some(segment));
            match self.send_datagram(bytes.clone(), to, timeout).await {
                Err(error) if is_of_destination(&error) => (),
                Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                    is_refused = true;
                }
                sent => return sent,
            }
        }
        while !bytes.is_empty() {
            let datagram = bytes.split_to(segment_bytes.min(bytes.len()));
            self.send_datagram(datagram, (Some(to), None), timeout).await?;
            // The network device does not support it, so it is not tried again.
            if std::mem::take(&mut is_refused) {
                self.has_segments.store(false, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    async fn send_datagram(
        &self,
        datagram: Bytes,
        (to, segment): (Option<SocketAddr>, Option<u16>),
        timeout: IoTimeout,
    ) -> io::Result<()> {
        let send = |socket| Request::SendTo { socket, datagram, to, segment };
        match self.socket.request(send, timeout).await? {
            Done::SentDatagram => Ok(()),
            other => unreachable!("sending a datagram completed with {other:?}"),
        }
    }

    /// Waits for a datagram and copies it to `buffer`. The end of a longer datagram is lost, and
    /// [`Received::truncated`] is set.
    ///
    /// Dropping the future may lose a datagram that is just arriving.
    ///
    /// # Errors
    /// The errors of `recvmsg(2)` and of [`IoTimeout`], such as `ConnectionRefused` if the socket is connected and the
    /// peer's host rejected an earlier datagram.
    pub async fn recv_from(&self, buffer: &mut [u8], timeout: IoTimeout) -> io::Result<Received> {
        let spare = std::mem::take(&mut *lock(&self.spare));
        let max = buffer.len().min(MAX_DATAGRAM_BYTES);
        let receive = |socket| Request::ReceiveFrom { socket, buffer: spare, max };
        match self.socket.request(receive, timeout).await? {
            Done::Datagram(datagram) => {
                let Datagram { bytes, from, truncated } = *datagram;
                buffer[..bytes.len()].copy_from_slice(&bytes);
                let length = bytes.len();
                *lock(&self.spare) = bytes;
                Ok(Received { length, from, truncated })
            }
            other => unreachable!("receiving a datagram completed with {other:?}"),
        }
    }

    /// Replaces the contents of `batch` with the datagrams that have arrived, in one system call and without waiting.
    /// There may be none. Typically, wait for the first datagram with [`recv_from`](Self::recv_from), and then take
    /// those behind it with this method.
    ///
    /// ```
    /// use phalanx::net::{DatagramBatch, IoTimeout, UdpSocket};
    ///
    /// #[phalanx::main(processors = 1)]
    /// async fn main() -> std::io::Result<()> {
    ///     let here = "127.0.0.1:0".parse().unwrap();
    ///     let (socket, peer) = (UdpSocket::bind(here)?, UdpSocket::bind(here)?);
    ///     // Four datagrams of 100 bytes, in one system call if the kernel supports it.
    ///     peer.send_segments(vec![7; 400], 100, socket.local_addr()?, IoTimeout::NONE).await?;
    ///
    ///     let (mut first, mut batch) = ([0; 1500], DatagramBatch::new(1500));
    ///     socket.recv_from(&mut first, IoTimeout::NONE).await?;
    ///     # #[cfg(target_os = "linux")]
    ///     socket.try_recv_batch(&mut batch)?;
    ///     for (bytes, from) in batch.iter() {
    ///         // `bytes` is `None` if the datagram was longer than 1,500 bytes.
    ///         assert_eq!((bytes.map(<[u8]>::len), from), (Some(100), peer.local_addr()?));
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// The errors of `recvmmsg(2)`; `Unsupported` on systems other than Linux.
    pub fn try_recv_batch(&self, batch: &mut DatagramBatch) -> io::Result<()> {
        self.socket.driver(|driver, socket| driver.receive_datagrams_now(socket, batch))
    }

    /// Like [`recv_from`](Self::recv_from), but for a socket that is [connected](Self::connect).
    ///
    /// # Errors
    /// The errors of [`recv_from`](Self::recv_from).
    pub async fn recv(&self, buffer: &mut [u8], timeout: IoTimeout) -> io::Result<Received> {
        self.recv_from(buffer, timeout).await
    }

    /// The address to which the socket is bound.
    ///
    /// # Errors
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.driver(|driver, socket| driver.local_addr(socket))
    }

    /// The address to which the socket is [connected](Self::connect).
    ///
    /// # Errors
    /// The errors of `getpeername(2)`, such as `NotConnected`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.driver(|driver, socket| driver.peer_addr(socket))
    }

    /// The number of datagrams that the kernel dropped because the receive buffer was full. Wraps at 2³².
    ///
    /// # Errors
    /// `Unsupported` on systems other than Linux.
    pub fn drops(&self) -> io::Result<u32> {
        self.socket.driver(|driver, socket| driver.udp_drops(socket))
    }
}

/// Whether the error is due to the destination: it is invalid, or its path accepts only smaller datagrams. The peer
/// determines both, so the error says nothing about other destinations.
fn is_of_destination(error: &io::Error) -> bool {
    let errors = [Errno::INVAL, Errno::MSGSIZE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| errors.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;

    /// Anyone can send a datagram from port 0, to which no response can be sent.
    #[test]
    fn a_peer_with_an_invalid_address_is_of_no_effect_on_others() {
        let main = |()| async {
            let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let before = socket.has_segments.load(Ordering::Relaxed);
            let target = "127.0.0.1:0".parse().unwrap();
            let sent = socket.send_segments(vec![1; 300], 100, target, IoTimeout::NONE).await;
            (sent.is_err(), before == socket.has_segments.load(Ordering::Relaxed))
        };
        let runtime = Runtime::new().processors(1).signals(false);
        assert_eq!(runtime.block_on(|_| (), main).unwrap(), (true, true));
    }
}
