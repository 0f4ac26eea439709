//! A socket that no driver has adopted yet: a descriptor, or a socket of a simulated network.

use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};

use crate::sim::{Listening, Peer, UdpPeer};

/// A listening socket, a connected stream socket or a UDP socket that no driver has adopted yet.
#[derive(Debug)]
pub struct Endpoint(Inner);

#[derive(Debug)]
enum Inner {
    Real(OwnedFd),
    Simulated(Simulated),
}

/// A socket of a simulated world.
#[derive(Debug)]
pub(crate) enum Simulated {
    Listener(Listening),
    Stream(Peer),
    Udp(UdpPeer),
}

impl From<OwnedFd> for Endpoint {
    fn from(fd: OwnedFd) -> Self {
        Self(Inner::Real(fd))
    }
}

/// Conversions from the standard library's sockets.
macro_rules! from_std {
    ($($socket:ty),*) => {$(
        impl From<$socket> for Endpoint {
            fn from(socket: $socket) -> Self {
                OwnedFd::from(socket).into()
            }
        }
    )*};
}

from_std!(TcpListener, TcpStream, UnixListener, UnixStream, UdpSocket);

/// Conversions from simulated sockets.
macro_rules! from_simulated {
    ($($socket:ty => $variant:ident),*) => {$(
        impl From<$socket> for Endpoint {
            fn from(socket: $socket) -> Self {
                Self(Inner::Simulated(Simulated::$variant(socket)))
            }
        }
    )*};
}

from_simulated!(Listening => Listener, Peer => Stream, UdpPeer => Udp);

impl Endpoint {
    /// The descriptor.
    ///
    /// # Errors
    /// `EBADF` for a simulated socket.
    pub fn into_fd(self) -> io::Result<OwnedFd> {
        match self.0 {
            Inner::Real(fd) => Ok(fd),
            Inner::Simulated(_) => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    /// The simulated socket; `EBADF` for a descriptor.
    pub(crate) fn into_sim(self) -> io::Result<Simulated> {
        match self.0 {
            Inner::Real(_) => Err(io::Error::from_raw_os_error(libc::EBADF)),
            Inner::Simulated(end) => Ok(end),
        }
    }
}
