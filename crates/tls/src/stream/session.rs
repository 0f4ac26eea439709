//! TLS streams: connects rustls to a socket.
//!
//! rustls performs no I/O. Received bytes are fed to it, and the plaintext is appended to the reader's
//! buffer; outgoing data is encrypted in records of 16 KiB, several of which are sent at once. No buffer is
//! kept between operations, so an idle connection consists of little more than its keys.
//!
//! Reads and writes may overlap, but only one operation sends at a time, so that records are sent in the
//! order of their encryption. Protocol messages in response to received data, such as a key update, are sent
//! with the next write. Only the alert of an error is sent by the reader, which ends the connection.

use std::any::Any;
use std::cell::{Cell, RefCell, RefMut};
use std::io::{self, BufRead, IoSlice, Write};
use std::net::Shutdown;
use std::sync::Arc;

use phalanx::net::{Bytes, IoTimeout, Payload, Stream};
use phalanx::time::now;
use rustls::pki_types::ServerName;
use rustls::{
    ClientConfig, ClientConnection, Connection, HandshakeKind, ServerConfig, ServerConnection,
};

use crate::certificates::clients;
use crate::stream::polled::PolledTls;
use crate::stream::records::Records;

/// A stream that has moved is not used any more.
const MOVED: &str = "the connection has moved to another processor";

/// One side of a TLS connection.
pub struct TlsStream {
    stream: Stream,
    /// `None` after the connection has moved to another processor.
    session: RefCell<Option<Connection>>,
    /// Plaintext that arrived with the end of the handshake and was not read yet.
    early: RefCell<Vec<u8>>,
    /// Position in the received records.
    records: RefCell<Records>,
    /// Whether an operation is sending. It also sends records that are encrypted while it does so.
    writing: Cell<bool>,
    /// The state passed with the connection by another processor.
    passed: Option<Box<dyn Any + Send>>,
}

/// The state of a connection on its way to another processor.
struct Moving {
    session: Connection,
    early: Vec<u8>,
    records: Records,
    /// The state of the caller.
    passed: Option<Box<dyn Any + Send>>,
}

/// A failed handshake.
pub struct Failed {
    /// The socket.
    pub stream: Stream,
    /// The kind of failure.
    pub reason: Reason,
    /// The error of the socket or of TLS, such as the alert of the client.
    pub error: io::Error,
}

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The client sent a plain HTTP request instead of TLS.
    PlainHttp,
    /// No byte arrived: a TCP health check, or a connection that a browser opened in advance and did not use.
    NoBytes,
    /// Everything else.
    Invalid,
}

impl TlsStream {
    /// Performs a handshake, for at most `timeout`.
    pub(crate) async fn accept(
        stream: Stream,
        config: Arc<ServerConfig>,
        timeout: IoTimeout,
    ) -> Result<Self, Failed> {
        let session = match ServerConnection::new(config) {
            Ok(session) => session,
            Err(error) => {
                return Err(Failed { stream, reason: Reason::Invalid, error: invalid(error) });
            }
        };
        let tls = Self::new(stream, session.into());
        match tls.handshake(timeout).await {
            Ok(()) => Ok(tls),
            Err((reason, error)) => Err(Failed { stream: tls.stream, reason, error }),
        }
    }

    /// Performs a handshake with the server `name`, for at most `timeout`.
    ///
    /// # Errors
    /// Like [`Stream::read`], and if the configuration does not trust the server.
    pub async fn connect(
        stream: Stream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        timeout: IoTimeout,
    ) -> io::Result<Self> {
        let session = ClientConnection::new(config, name).map_err(invalid)?;
        let (tls, start) = (Self::new(stream, session.into()), now());
        tls.flush(timeout).await?;
        let done = tls.handshake(timeout.remaining(now() - start)).await;
        done.map_err(|(_, error)| error)?;
        Ok(tls)
    }

    fn new(stream: Stream, session: Connection) -> Self {
        let (early, records) = (RefCell::default(), RefCell::default());
        let session = RefCell::new(Some(session));
        Self { stream, session, early, records, writing: Cell::new(false), passed: None }
    }

    /// Receives and sends until the handshake is complete.
    async fn handshake(&self, timeout: IoTimeout) -> Result<(), (Reason, io::Error)> {
        let start = now();
        let mut raw = Vec::new();
        // The reason if the handshake fails now.
        let mut reason = Reason::NoBytes;
        while self.session().is_handshaking() {
            raw.clear();
            let remaining = timeout.remaining(now() - start);
            let read =
                self.stream.read(&mut raw, remaining).await.map_err(|error| (reason, error))?;
            if read == 0 {
                return Err((reason, io::ErrorKind::UnexpectedEof.into()));
            }
            // A TLS handshake starts with the byte 22 (RFC 8446 §5.1), an HTTP request with a letter.
            if reason == Reason::NoBytes && raw[0].is_ascii_uppercase() {
                let message = "the server does not speak TLS";
                return Err((
                    Reason::PlainHttp,
                    io::Error::new(io::ErrorKind::InvalidData, message),
                ));
            }
            reason = Reason::Invalid;
            let result = self.feed(&raw, &mut self.early.borrow_mut());
            // If processing failed, this sends the alert.
            let flushed = self.flush(timeout.remaining(now() - start)).await;
            flushed.and(result).map_err(|error| (reason, error))?;
        }
        Ok(())
    }

    /// Whether the handshake has resumed an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.session().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Whether `protocol` was negotiated.
    pub fn speaks(&self, protocol: &[u8]) -> bool {
        self.session().alpn_protocol() == Some(protocol)
    }

    /// The common name in the client's certificate, if it has a unique one.
    pub fn client_name(&self) -> Option<String> {
        clients::name(&self.session())
    }

    /// Waits for data and appends it to `buffer`. Returns the number of bytes; zero at the end of the stream.
    /// A connection that ends without close_notify is an error, because it may have been truncated by an
    /// attacker.
    ///
    /// # Errors
    /// Like [`Stream::read`], and if received data is invalid.
    pub async fn read(&self, buffer: &mut Vec<u8>, timeout: IoTimeout) -> io::Result<usize> {
        let before = buffer.len();
        buffer.append(&mut self.early.borrow_mut());
        let start = now();
        let mut raw = Vec::new();
        while buffer.len() == before {
            if self.has_ended()? {
                return Ok(0);
            }
            raw.clear();
            // One time limit covers all pieces of a record.
            self.stream.read(&mut raw, timeout.remaining(now() - start)).await?;
            if let Err(error) = self.feed(&raw, buffer) {
                // Send the alert, if the client still reads.
                let _ = self.flush(timeout.remaining(now() - start)).await;
                return Err(error);
            }
        }
        Ok(buffer.len() - before)
    }

    /// Sends all of `payload` and returns the memory of its head. Only one write may be in progress.
    ///
    /// # Errors
    /// Like [`Stream::write`].
    pub async fn write(&self, payload: Payload, timeout: IoTimeout) -> io::Result<Vec<u8>> {
        let Payload { mut head, body } = payload;
        if self.writing.get() {
            // An alert is being sent: the connection has ended.
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let _guard = WriteGuard::new(&self.writing);
        let (mut sent, mut sealed, start) = (0, Vec::new(), now());
        while sent < head.len() + body.len() {
            let rest = [
                IoSlice::new(&head[sent.min(head.len())..]),
                IoSlice::new(&body[sent.saturating_sub(head.len())..]),
            ];
            // As much as rustls buffers at a time.
            sent += self.session().writer().write_vectored(&rest)?;
            sealed = self.send_sealed(sealed, timeout.remaining(now() - start)).await?;
        }
        head.clear();
        Ok(head)
    }

    /// Sends close_notify (RFC 8446 §6.1) and closes the socket's sending side.
    ///
    /// # Errors
    /// Like [`Stream::write`].
    pub async fn finish(&self, timeout: IoTimeout) -> io::Result<()> {
        if self.session.borrow().is_none() {
            // It has moved.
            return Err(io::ErrorKind::NotConnected.into());
        }
        self.session().send_close_notify();
        self.flush(timeout).await?;
        self.stream.shutdown(Shutdown::Write)
    }

    /// [Offers](Stream::offer) the connection to the other processors. Returns true if it has moved, with its keys, all
    /// received bytes, and `state`. Then only [`finish`](Self::finish) may be called, which fails. A connection with
    /// unsent records does not move.
    pub(crate) fn offer(&self, state: impl FnOnce() -> Box<dyn Any + Send>) -> bool {
        let is_idle = !self.writing.get() && !self.session().wants_write();
        is_idle
            && self.stream.offer_with(|| Moving {
                session: self.session.take().expect(MOVED),
                early: self.early.take(),
                records: self.records.take(),
                passed: Some(state()),
            })
    }

    /// The encrypted stream of a connection that another processor has [offered](Self::offer).
    ///
    /// # Errors
    /// Returns `stream` if it is not one.
    pub(crate) fn resume(mut stream: Stream) -> Result<Self, Stream> {
        let Some(Moving { session, early, records, passed }) = stream.take_state() else {
            return Err(stream);
        };
        let (early, records) = (RefCell::new(early), RefCell::new(records));
        Ok(Self { early, records, passed, ..Self::new(stream, session) })
    }

    /// Takes the state with which another processor has [offered](Self::offer) the connection, if it has this type.
    pub(crate) fn take_state<S: 'static>(&mut self) -> Option<S> {
        self.passed.take()?.downcast().ok().map(|state| *state)
    }

    fn session(&self) -> RefMut<'_, Connection> {
        RefMut::map(self.session.borrow_mut(), |session| session.as_mut().expect(MOVED))
    }

    /// Whether there is nothing to read: no data, no part of a record, no end and no error.
    pub fn is_idle(&self) -> bool {
        let has_data = |session: &mut Connection| match session.reader().fill_buf() {
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            Ok(_) => true,
        };
        self.early.borrow().is_empty()
            && self.records.borrow().is_whole()
            && !has_data(&mut self.session())
            && self.stream.is_idle()
    }

    /// The socket.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Converts to a stream for poll functions. No read or write may be in progress.
    pub fn into_polled(self) -> PolledTls {
        PolledTls::new(
            self.stream,
            self.session.into_inner().expect(MOVED),
            self.early.into_inner(),
        )
    }

    /// Processes received bytes; an empty slice is the end. Appends plaintext to `opened`.
    fn feed(&self, mut raw: &[u8], opened: &mut Vec<u8>) -> io::Result<()> {
        self.records.borrow_mut().received(raw);
        let session = &mut *self.session();
        loop {
            session.read_tls(&mut raw)?;
            let state = session.process_new_packets().map_err(invalid)?;
            let mut reader = session.reader();
            let mut remaining = state.plaintext_bytes_to_read();
            while remaining > 0 {
                let piece = reader.fill_buf()?;
                let length = piece.len();
                opened.extend_from_slice(piece);
                reader.consume(length);
                remaining -= length;
            }
            if raw.is_empty() || state.peer_has_closed() {
                return Ok(());
            }
        }
    }

    /// Whether the client has sent close_notify.
    fn has_ended(&self) -> io::Result<bool> {
        match self.session().reader().fill_buf() {
            Ok(bytes) => Ok(bytes.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends encrypted records, unless another operation is sending.
    async fn flush(&self, timeout: IoTimeout) -> io::Result<()> {
        if self.writing.get() || !self.session().wants_write() {
            return Ok(());
        }
        let _guard = WriteGuard::new(&self.writing);
        self.send_sealed(Vec::new(), timeout).await.map(drop)
    }

    /// Sends encrypted records until none are left. Uses `memory` as buffer and returns it.
    async fn send_sealed(&self, mut memory: Vec<u8>, timeout: IoTimeout) -> io::Result<Vec<u8>> {
        let start = now();
        while self.session().wants_write() {
            self.session().write_tls(&mut memory)?;
            let payload = Payload { head: memory, body: Bytes::new() };
            memory = self.stream.write(payload, timeout.remaining(now() - start)).await?;
        }
        Ok(memory)
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Marks the stream as sending while it exists.
struct WriteGuard<'a>(&'a Cell<bool>);

impl<'a> WriteGuard<'a> {
    fn new(writing: &'a Cell<bool>) -> Self {
        writing.set(true);
        Self(writing)
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
