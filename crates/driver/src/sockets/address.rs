//! Addresses of stream sockets.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The address of a stream socket: an IP address and port, or the path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// An IP address and a TCP port.
    Ip(SocketAddr),
    /// The path of a Unix socket, at most 107 bytes on Linux. Empty for an unnamed socket, to which no request can
    /// connect. On Linux, a path that starts with a zero byte is an abstract name.
    Unix(PathBuf),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl Address {
    /// The IP address and port.
    ///
    /// # Errors
    /// `Unsupported` for a Unix socket.
    pub(crate) fn ip(&self) -> std::io::Result<SocketAddr> {
        match self {
            Self::Ip(address) => Ok(*address),
            Self::Unix(_) => Err(no_ip_address()),
        }
    }

    /// The address in the kernel's format.
    ///
    /// # Errors
    /// `InvalidInput` for a path that is empty or too long, or has a zero byte other than that of an abstract name.
    pub(crate) fn to_kernel(&self) -> std::io::Result<socket2::SockAddr> {
        match self {
            Self::Ip(address) => Ok((*address).into()),
            Self::Unix(path) => {
                let bytes = path.as_os_str().as_bytes();
                let is_abstract = cfg!(target_os = "linux") && bytes.len() > 1 && bytes[0] == 0;
                if bytes.is_empty() || (bytes.contains(&0) && !is_abstract) {
                    return Err(std::io::ErrorKind::InvalidInput.into());
                }
                socket2::SockAddr::unix(path)
            }
        }
    }

    /// The protocol of a stream socket that connects to this address. Unix sockets have none.
    pub(crate) fn protocol(&self) -> Option<socket2::Protocol> {
        matches!(self, Self::Ip(_)).then_some(socket2::Protocol::TCP)
    }
}

/// The error for requesting the IP address of a Unix socket.
pub(crate) fn no_ip_address() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::Unsupported, "a Unix socket has no IP address")
}
