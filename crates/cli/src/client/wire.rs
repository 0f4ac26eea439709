//! The transport of a client: a socket with or without TLS, non-blocking after the handshake.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

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
    connector
        .map(|connector| connector.config())
        .map_err(|reason| Failure::Usage(reason.to_string()))
}

impl Wire {
    /// Performs a handshake with `host`, until `deadline`.
    ///
    /// # Errors
    /// When the broker's certificate or the connection is bad.
    pub(super) fn handshake(
        mut stream: TcpStream,
        host: &str,
        config: Arc<ClientConfig>,
        deadline: Instant,
    ) -> io::Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let mut session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        while session.is_handshaking() || session.wants_write() {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(remaining))?;
            stream.set_write_timeout(Some(remaining))?;
            if session.wants_write() {
                session.write_tls(&mut stream)?;
                continue;
            }
            if session.read_tls(&mut stream)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Err(error) = session.process_new_packets() {
                // The alert tells the broker why.
                let _ = session.write_tls(&mut stream);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        Ok(Self::Tls(Box::new(StreamOwned::new(session, stream))))
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(tls) => &tls.sock,
        }
    }

    /// Makes the socket non-blocking.
    pub(super) fn set_nonblocking(&self) -> io::Result<()> {
        self.socket().set_nodelay(true)?;
        self.socket().set_nonblocking(true)
    }

    /// Whether written data is buffered.
    pub(super) fn has_unsent(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.conn.wants_write())
    }

    /// Sends as much buffered data as the socket takes. Returns whether it took any. The next read reports an error.
    pub(super) fn send_buffered(&mut self) -> bool {
        let mut has_sent = false;
        if let Self::Tls(tls) = self {
            while tls.conn.wants_write()
                && matches!(tls.conn.write_tls(&mut tls.sock), Ok(sent) if sent > 0)
            {
                has_sent = true;
            }
        }
        has_sent
    }

    /// Whether decrypted data is buffered; polling the socket does not report it.
    pub(super) fn has_unread(&self) -> bool {
        matches!(self, Self::Tls(tls) if !tls.conn.wants_read())
    }

    /// Closes the sending direction.
    pub(super) fn finish(&mut self) {
        if let Self::Tls(tls) = self {
            tls.conn.send_close_notify();
            let _ = tls.flush();
        }
        let _ = self.socket().shutdown(Shutdown::Write);
    }
}

impl Read for Wire {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(bytes),
            // Some servers close without close_notify. Truncation shows as an incomplete packet.
            Self::Tls(tls) => tls.read(bytes).or_else(|error| match error.kind() {
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
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use rustls::RootCertStore;

    use super::*;

    #[test]
    fn a_handshake_ends_in_time_although_bytes_arrive() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        // The start of a long record.
        server.write_all(&[22, 3, 3, 0x40, 0]).unwrap();
        thread::spawn(move || {
            for _ in 0..200 {
                thread::sleep(Duration::from_millis(50));
                if server.write_all(&[0]).is_err() {
                    return;
                }
            }
        });
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let deadline = Instant::now() + Duration::from_millis(500);
        let error = Wire::handshake(stream, "localhost", Arc::new(config), deadline).err().unwrap();
        let expected = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
        assert!(expected.contains(&error.kind()), "{error:?}");
    }
}
