//! The byte stream of a connection: plain or TLS.
//!
//! rustls performs no I/O: received bytes are fed to it, and encrypted bytes are sent. A client does one thing at
//! a time, so control messages of the protocol are sent at once.

use std::io::{self, BufRead, Write};
use std::net::SocketAddr;

use phalanx::net::{Bytes, IoTimeout, Payload, Stream};
use phalanx::time::now;
use rustls::{ClientConnection, HandshakeKind};

use super::tls::Tls;

/// A connection to the server.
pub(crate) enum Wire {
    /// `http://`
    Plain(Stream),
    /// `https://`
    Tls(Box<Sealed>),
}

/// A socket and its TLS session.
pub(crate) struct Sealed {
    stream: Stream,
    session: ClientConnection,
    /// Data received with the end of the handshake; HTTP/2 servers send first.
    early: Vec<u8>,
    /// Buffers for received and sent ciphertext.
    raw: Vec<u8>,
    out: Vec<u8>,
}

impl Wire {
    /// Connects and performs the handshake, if any; `timeout` covers both.
    pub(crate) async fn connect(
        address: SocketAddr,
        tls: Option<&Tls>,
        timeout: IoTimeout,
    ) -> io::Result<Self> {
        let begun = now();
        let stream = Stream::connect(address, timeout).await?;
        let Some(tls) = tls else { return Ok(Self::Plain(stream)) };
        let session = tls.session().map_err(io::Error::other)?;
        let mut early = Vec::new();
        let mut sealed =
            Sealed { stream, session, early: Vec::new(), raw: Vec::new(), out: Vec::new() };
        loop {
            sealed.flush(timeout.remaining(now() - begun)).await?;
            if !sealed.session.is_handshaking() {
                break;
            }
            sealed.receive(&mut early, timeout.remaining(now() - begun)).await?;
        }
        sealed.early = early;
        Ok(Self::Tls(Box::new(sealed)))
    }

    /// Whether the handshake has resumed an earlier session.
    pub(crate) fn is_resumed(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(sealed) => sealed.session.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    /// Waits for bytes and appends them to `buffer`. Returns their number; zero is the end of the stream.
    pub(crate) async fn read(
        &mut self,
        buffer: &mut Vec<u8>,
        timeout: IoTimeout,
    ) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer, timeout).await,
            Self::Tls(sealed) => {
                let (before, begun) = (buffer.len(), now());
                buffer.append(&mut sealed.early);
                while buffer.len() == before {
                    if !sealed.receive(buffer, timeout.remaining(now() - begun)).await? {
                        break;
                    }
                }
                Ok(buffer.len() - before)
            }
        }
    }

    /// Waits for bytes, discards the first `skip` of them and returns their number; later bytes may be appended
    /// to `buffer`. Zero is the end of the stream.
    pub(crate) async fn skip(
        &mut self,
        skip: u64,
        buffer: &mut Vec<u8>,
        timeout: IoTimeout,
    ) -> io::Result<u64> {
        match self {
            Self::Plain(stream) => stream.skip(skip, buffer, timeout).await,
            Self::Tls(_) => {
                let before = buffer.len();
                let came = self.read(buffer, timeout).await?;
                let skipped = usize::try_from(skip).map_or(came, |skip| skip.min(came));
                buffer.drain(before..before + skipped);
                Ok(skipped as u64)
            }
        }
    }

    /// Sends all of `bytes` and returns the empty buffer.
    pub(crate) async fn write(
        &mut self,
        mut bytes: Vec<u8>,
        timeout: IoTimeout,
    ) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain(stream) => {
                stream.write(Payload { head: bytes, body: Bytes::new() }, timeout).await
            }
            Self::Tls(sealed) => {
                sealed.session.writer().write_all(&bytes)?;
                sealed.flush(timeout).await?;
                bytes.clear();
                Ok(bytes)
            }
        }
    }
}

impl Sealed {
    /// Receives once and appends the decrypted data. Returns false at the end of the stream.
    async fn receive(&mut self, opened: &mut Vec<u8>, timeout: IoTimeout) -> io::Result<bool> {
        self.raw.clear();
        if self.stream.read(&mut self.raw, timeout).await? == 0 {
            // Truncation is detected for answers of known length; others end with the connection.
            return match self.session.is_handshaking() {
                true => Err(io::ErrorKind::UnexpectedEof.into()),
                false => Ok(false),
            };
        }
        let mut raw = &self.raw[..];
        let mut closed = false;
        while !raw.is_empty() && !closed {
            self.session.read_tls(&mut raw)?;
            let state = self.session.process_new_packets().map_err(io::Error::other)?;
            closed = state.peer_has_closed();
            let mut left = state.plaintext_bytes_to_read();
            let mut reader = self.session.reader();
            while left > 0 {
                let piece = reader.fill_buf()?;
                let length = piece.len();
                opened.extend_from_slice(piece);
                reader.consume(length);
                left -= length;
            }
        }
        if self.session.wants_write() {
            self.flush(timeout).await?;
        }
        Ok(!closed)
    }

    /// Sends all encrypted bytes.
    async fn flush(&mut self, timeout: IoTimeout) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.out)?;
            let payload = Payload { head: std::mem::take(&mut self.out), body: Bytes::new() };
            self.out = self.stream.write(payload, timeout).await?;
        }
        Ok(())
    }
}
