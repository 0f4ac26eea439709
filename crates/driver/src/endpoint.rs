//! A socket before a driver has taken it into its care: a descriptor, or an end of a simulated
//! connection.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

/// A listening or connected stream socket that no driver has yet.
#[derive(Debug)]
pub struct Endpoint(Inner);

#[derive(Debug)]
enum Inner {
    Real(OwnedFd),
}

impl From<OwnedFd> for Endpoint {
    fn from(fd: OwnedFd) -> Self {
        Self(Inner::Real(fd))
    }
}

impl From<TcpListener> for Endpoint {
    fn from(listener: TcpListener) -> Self {
        OwnedFd::from(listener).into()
    }
}

impl From<TcpStream> for Endpoint {
    fn from(stream: TcpStream) -> Self {
        OwnedFd::from(stream).into()
    }
}

impl Endpoint {
    /// The descriptor.
    ///
    /// # Errors
    /// `EBADF` when it is simulated.
    pub fn into_fd(self) -> io::Result<OwnedFd> {
        match self.0 {
            Inner::Real(fd) => Ok(fd),
        }
    }
}
