//! The transport of a client: a socket with or without TLS, non-blocking after the handshake.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use phalanx_tls::Connector;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::To;
use super::failure::Failure;

/// A transport.
pub(super) enum Wire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// TLS configuration with the trusted roots and the client certificate.
pub(super) fn config(to: &To) -> Result<Arc<ClientConfig>, Failure> {
    let connector =
        Connector::load(to.ca.as_deref(), to.cert.as_deref().zip(to.key.as_deref()), &[]);
    connector.map(|connector| connector.config()).map_err(|why| Failure::Usage(why.to_string()))
}

impl Wire {
    /// Performs a handshake with `host`, waiting at most `timeout` per read.
    ///
    /// # Errors
    /// When the broker's certificate or the connection is bad.
    pub(super) fn handshake(
        stream: TcpStream,
        host: &str,
        config: Arc<ClientConfig>,
        timeout: Duration,
    ) -> io::Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let mut sealed = StreamOwned::new(session, stream);
        while sealed.conn.is_handshaking() {
            sealed.conn.complete_io(&mut sealed.sock)?;
        }
        Ok(Self::Tls(Box::new(sealed)))
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(sealed) => &sealed.sock,
        }
    }

    /// Makes the socket non-blocking.
    pub(super) fn set_nonblocking(&self) -> io::Result<()> {
        self.socket().set_nodelay(true)?;
        self.socket().set_nonblocking(true)
    }

    /// Whether written data is buffered.
    pub(super) fn has_unsent(&self) -> bool {
        matches!(self, Self::Tls(sealed) if sealed.conn.wants_write())
    }

    /// Whether decrypted data is buffered; polling the socket does not report it.
    pub(super) fn has_unread(&self) -> bool {
        matches!(self, Self::Tls(sealed) if !sealed.conn.wants_read())
    }

    /// Closes the sending direction.
    pub(super) fn finish(&mut self) {
        if let Self::Tls(sealed) = self {
            sealed.conn.send_close_notify();
            let _ = sealed.flush();
        }
        let _ = self.socket().shutdown(Shutdown::Write);
    }
}

impl Read for Wire {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(bytes),
            // Some servers close without close_notify. Truncation shows as an incomplete packet.
            Self::Tls(sealed) => sealed.read(bytes).or_else(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => Ok(0),
                _ => Err(error),
            }),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(sealed) => sealed.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(sealed) => sealed.flush(),
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}
