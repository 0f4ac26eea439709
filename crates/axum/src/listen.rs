//! The sockets on which a server listens.

use std::io;
use std::net::{SocketAddr, TcpListener};

/// An address, or a listener that exists.
pub trait Listen {
    /// The listener.
    ///
    /// # Errors
    /// As `bind(2)`.
    fn into_std(self) -> io::Result<TcpListener>;
}

impl Listen for TcpListener {
    fn into_std(self) -> io::Result<TcpListener> {
        Ok(self)
    }
}

impl Listen for SocketAddr {
    fn into_std(self) -> io::Result<TcpListener> {
        let sockets = phalanx::net::bind(self, 1)?;
        sockets.into_iter().next().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Listen for &str {
    /// An IP address and a port, as in `127.0.0.1:3000`.
    fn into_std(self) -> io::Result<TcpListener> {
        let address = self.parse::<SocketAddr>().map_err(|_| {
            let what = format!("{self:?} is no IP address with a port, such as 127.0.0.1:3000");
            io::Error::new(io::ErrorKind::InvalidInput, what)
        })?;
        address.into_std()
    }
}

#[cfg(feature = "tokio")]
impl Listen for tokio::net::TcpListener {
    fn into_std(self) -> io::Result<TcpListener> {
        tokio::net::TcpListener::into_std(self)
    }
}
