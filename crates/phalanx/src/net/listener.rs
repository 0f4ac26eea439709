//! A listening socket of one processor.

use std::io;
use std::net::SocketAddr;

use phalanx_driver::Endpoint;

use super::Stream;
use crate::io::{Accepted, HomeSocket, place, with};

/// A TCP or Unix listening socket of this processor. Using it on another processor fails with
/// [`OwnerError`](super::OwnerError). Dropping it closes the socket.
///
/// ```
/// use phalanx::net::{IoTimeout, Listener, Stream, bind};
///
/// #[phalanx::main(processors = 1)]
/// async fn main() -> std::io::Result<()> {
///     // `bind` returns one socket per processor, here only one.
///     let socket = bind("127.0.0.1:0".parse().unwrap(), 1)?.remove(0);
///     let listener = Listener::new(socket)?;
///     let client = Stream::connect(listener.local_addr()?, IoTimeout::NONE).await?;
///     let stream = listener.accept().await?;
///     assert_eq!(stream.peer_addr()?, client.local_addr()?);
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Listener(HomeSocket);

impl Listener {
    /// Moves a listening socket to this processor, such as one of [`bind`](super::bind()) or
    /// [`bind_unix`](super::bind_unix).
    ///
    /// # Errors
    /// The driver's error if it cannot register the socket.
    ///
    /// # Panics
    /// If called outside a processor.
    pub fn new(listener: impl Into<Endpoint>) -> io::Result<Self> {
        let listener = listener.into();
        let socket = with(|io| io.try_driver(|driver| driver.adopt(listener)))?;
        Ok(Self(HomeSocket::listening(socket)))
    }

    /// Waits for the next connection, until the program drains. If several processors listen on the same IP address,
    /// the connection may have been accepted by another of them: the runtime serves a few connections on one processor
    /// and balances many. [`accept_each`](Self::accept_each) calls this in a loop.
    ///
    /// This method is cancel safe: if the future is dropped, for example by [`select`](crate::task::select), the next
    /// accept returns a connection that was already accepted.
    ///
    /// # Errors
    /// [`Drained`](crate::shutdown::Drained) once the program drains; otherwise the errors of `accept(2)`. After
    /// `EMFILE` or `ENFILE` (out of descriptors), wait for a moment and retry.
    pub async fn accept(&self) -> io::Result<Stream> {
        loop {
            let socket = self.0.accept().await?;
            if let Accepted::Here { has_moved, state } = place(self.0.socket(), socket) {
                return Ok(Stream(self.0.accepted(socket, has_moved, state)));
            }
        }
    }

    /// The address on which this socket listens.
    ///
    /// # Errors
    /// The errors of `getsockname(2)`; `Unsupported` for a Unix socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.driver(|driver, socket| driver.local_addr(socket))
    }
}
