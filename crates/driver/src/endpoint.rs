//! A socket before a driver has taken it into its care: a descriptor, or an end of a simulated
//! connection.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use crate::sim::{Listening, Peer};

/// A listening or connected stream socket that no driver has yet.
#[derive(Debug)]
pub struct Endpoint(Inner);

#[derive(Debug)]
enum Inner {
    Real(OwnedFd),
    Simulated(Simulated),
}

/// One of a simulated world.
#[derive(Debug)]
pub(crate) enum Simulated {
    Listener(Listening),
    Stream(Peer),
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

impl From<Listening> for Endpoint {
    fn from(listening: Listening) -> Self {
        Self(Inner::Simulated(Simulated::Listener(listening)))
    }
}

impl From<Peer> for Endpoint {
    fn from(peer: Peer) -> Self {
        Self(Inner::Simulated(Simulated::Stream(peer)))
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
            Inner::Simulated(_) => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    /// The simulated end; `EBADF` for one of the kernel's.
    pub(crate) fn into_sim(self) -> io::Result<Simulated> {
        match self.0 {
            Inner::Real(_) => Err(io::Error::from_raw_os_error(libc::EBADF)),
            Inner::Simulated(end) => Ok(end),
        }
    }
}
