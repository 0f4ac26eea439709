//! A listening socket of one processor.

use std::io;
use std::net::SocketAddr;

use phalanx_driver::Endpoint;

use super::Stream;
use crate::io::{Accepted, HomeSocket, place, with};

/// A TCP or Unix listening socket of this processor. Using it on another one fails with
/// [`Elsewhere`](super::Elsewhere). Dropping it closes it.
///
/// ```
/// use phalanx::net::{IoTimeout, Listener, Stream, bind};
///
/// #[phalanx::main(processors = 1)]
/// async fn main() -> std::io::Result<()> {
///     // One socket for each processor; here there is one.
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
    /// Outside a processor.
    pub fn new(listener: impl Into<Endpoint>) -> io::Result<Self> {
        let listener = listener.into();
        let socket = with(|io| io.try_driver(|driver| driver.adopt(listener)))?;
        Ok(Self(HomeSocket::listening(socket)))
    }

    /// Waits for the next connection, until the program drains. If several processors listen on its IP
    /// address, the connection may be one that another of them has accepted: few connections share a processor, and many
    /// are balanced. [`accept_each`](Self::accept_each) is the loop around it.
    ///
    /// It may be cancelled: if the future is dropped, for example by [`select`](crate::task::select), a connection that it
    /// has accepted is returned by the next accept.
    ///
    /// # Errors
    /// [`Drained`](crate::shutdown::Drained) once the program drains; else as `accept(2)`. After `EMFILE` or `ENFILE`
    /// (out of descriptors), wait for a moment and try again.
    pub async fn accept(&self) -> io::Result<Stream> {
        loop {
            let socket = self.0.accept().await?;
            if let Accepted::Here { has_moved, state } = place(self.0.socket(), socket) {
                return Ok(Stream(self.0.accepted(socket, has_moved, state)));
            }
        }
    }

    /// The address on which it listens.
    ///
    /// # Errors
    /// As `getsockname(2)`; `Unsupported` for a Unix socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.driver(|driver, socket| driver.local_addr(socket))
    }
}
