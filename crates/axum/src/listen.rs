//! The sockets on which a server listens.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

/// An address, or a listener that exists: of TCP or a Unix socket.
pub trait Listen {
    /// The descriptor of the listening socket.
    ///
    /// # Errors
    /// As `bind(2)`.
    fn into_fd(self) -> io::Result<OwnedFd>;
}

impl Listen for SocketAddr {
    fn into_fd(self) -> io::Result<OwnedFd> {
        let sockets = phalanx::net::bind(self, 1)?;
        sockets.into_iter().next().map(OwnedFd::from).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Listen for &str {
    /// An IP address and a port, as in `127.0.0.1:3000`.
    fn into_fd(self) -> io::Result<OwnedFd> {
        let address = self.parse::<SocketAddr>().map_err(|_| {
            let message = format!("{self:?} is no IP address with a port, such as 127.0.0.1:3000");
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })?;
        address.into_fd()
    }
}

impl Listen for TcpListener {
    fn into_fd(self) -> io::Result<OwnedFd> {
        Ok(self.into())
    }
}

impl Listen for UnixListener {
    fn into_fd(self) -> io::Result<OwnedFd> {
        Ok(self.into())
    }
}

#[cfg(feature = "tokio")]
impl Listen for tokio::net::TcpListener {
    fn into_fd(self) -> io::Result<OwnedFd> {
        self.into_std()?.into_fd()
    }
}

#[cfg(feature = "tokio")]
impl Listen for tokio::net::UnixListener {
    fn into_fd(self) -> io::Result<OwnedFd> {
        self.into_std()?.into_fd()
    }
}
