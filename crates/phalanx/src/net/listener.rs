//! A listening socket of one processor.

use std::io;
use std::net::SocketAddr;

use phalanx_driver::{Done, Endpoint, Request};

use super::Stream;
use crate::io::{HomeSocket, IoTimeout, with};

/// A socket that accepts connections for this processor. It stays there; used on another it is an
/// [`Elsewhere`](crate::net::Elsewhere).
pub struct Listener(HomeSocket);

impl Listener {
    /// Takes a listening socket onto this processor.
    ///
    /// # Errors
    /// When the driver cannot register it.
    ///
    /// # Panics
    /// Outside of a processor.
    pub fn new(listener: impl Into<Endpoint>) -> io::Result<Self> {
        let listener = listener.into();
        with(|io| io.driver(|driver| driver.adopt(listener))).map(|s| Self(HomeSocket::new(s)))
    }

    /// Waits for the next connection, until the program drains.
    ///
    /// # Errors
    /// [`Drained`](crate::shutdown::Drained) once the program drains; else as `accept(2)`. Out of descriptors
    /// (`EMFILE`, `ENFILE`), wait a little and go on.
    pub async fn accept(&self) -> io::Result<Stream> {
        let accept = |listener| Request::Accept { listener };
        match self.0.request(accept, IoTimeout::NONE.until_shutdown()).await? {
            Done::Accepted(socket) => Ok(Stream(self.0.beside(socket))),
            other => unreachable!("accept came to {other:?}"),
        }
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// As `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.driver(|driver, socket| driver.local_addr(socket))
    }
}
