//! TLS over a socket: rustls between our buffers and the socket's.
//!
//! rustls does no I/O. Bytes from the socket are fed to it, and what it opens is appended to the
//! reader's buffer; what is to be sent is sealed in records of 16 KiB, some of them in one send. No
//! buffer is kept while nothing is under way: an idle connection is its keys and little more.
//!
//! Reading may go on while something is written, but only one sends at a time, so that records leave
//! in the order in which they were sealed: what the protocol itself has to say to what was read (an
//! answer to a key update) leaves with what is written next. Only an error's alert is sent by the
//! reader, and after it the connection is over.

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, IoSlice, Write};
use std::net::Shutdown;
use std::sync::Arc;

use phalanx::net::{Bytes, IoTimeout, Payload, Stream};
use phalanx::time::now;
use rustls::{ServerConfig, ServerConnection};

use crate::clients;

/// The server's end of a TLS connection.
pub struct TlsStream {
    stream: Stream,
    session: RefCell<ServerConnection>,
    /// Opened, and not asked for yet: what came with the end of the handshake.
    early: RefCell<Vec<u8>>,
    /// Somebody sends, and will send what is sealed meanwhile.
    writing: Cell<bool>,
}

/// Why a handshake came to nothing.
pub struct Failed {
    /// The socket.
    pub stream: Stream,
    /// What was received first did not even look like TLS, but like a request.
    pub plain: bool,
}

impl TlsStream {
    /// Shakes hands. `timeout` is for all of it.
    pub(crate) async fn accept(
        stream: Stream,
        config: Arc<ServerConfig>,
        timeout: IoTimeout,
    ) -> Result<Self, Failed> {
        let Ok(session) = ServerConnection::new(config) else {
            return Err(Failed { stream, plain: false });
        };
        let tls = Self {
            stream,
            session: RefCell::new(session),
            early: RefCell::default(),
            writing: Cell::new(false),
        };
        match tls.shake(timeout).await {
            Ok(None) => Ok(tls),
            Ok(Some(plain)) => Err(Failed { stream: tls.stream, plain }),
            Err(_) => Err(Failed { stream: tls.stream, plain: false }),
        }
    }

    /// None when the handshake is done; otherwise whether the client speaks plain HTTP.
    async fn shake(&self, timeout: IoTimeout) -> io::Result<Option<bool>> {
        let begun = now();
        let mut raw = Vec::new();
        let mut first = true;
        while self.session.borrow().is_handshaking() {
            raw.clear();
            if self.stream.read(&mut raw, timeout.remaining(now() - begun)).await? == 0 {
                return Ok(Some(false));
            }
            // A handshake record begins with 22 (RFC 8446 §5.1), a request with a letter.
            if std::mem::take(&mut first) && raw[0].is_ascii_uppercase() {
                return Ok(Some(true));
            }
            let fed = self.feed(&raw, &mut self.early.borrow_mut());
            // An alert, if it went wrong: the client is told why.
            self.flush(timeout.remaining(now() - begun)).await?;
            fed?;
        }
        Ok(None)
    }

    /// Whether `protocol` was agreed on.
    pub fn speaks(&self, protocol: &[u8]) -> bool {
        self.session.borrow().alpn_protocol() == Some(protocol)
    }

    /// Whom the client's certificate names as its common name, if it had to have one and that names one.
    pub fn client_name(&self) -> Option<String> {
        clients::name(&self.session.borrow())
    }

    /// Waits for bytes and appends them to `buffer`. Returns how many; zero is the end. A connection that ends
    /// without its client having said so is an error: somebody may have cut it off.
    ///
    /// # Errors
    /// As [`Stream::read`], and when what has come is broken.
    pub async fn read(&self, buffer: &mut Vec<u8>, timeout: IoTimeout) -> io::Result<usize> {
        let before = buffer.len();
        buffer.append(&mut self.early.borrow_mut());
        let begun = now();
        let mut raw = Vec::new();
        while buffer.len() == before {
            if self.has_ended()? {
                return Ok(0);
            }
            raw.clear();
            // One limit for a record, however it is cut.
            self.stream.read(&mut raw, timeout.remaining(now() - begun)).await?;
            if let Err(error) = self.feed(&raw, buffer) {
                // The client is told why, if it still listens.
                let _ = self.flush(timeout.remaining(now() - begun)).await;
                return Err(error);
            }
        }
        Ok(buffer.len() - before)
    }

    /// Sends all of `payload`, and gives its head's memory back. One at a time.
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub async fn write(&self, payload: Payload, timeout: IoTimeout) -> io::Result<Vec<u8>> {
        let Payload { mut head, body } = payload;
        if self.writing.get() {
            // An alert is under way: there is nothing more to say.
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let _writing = Writing::new(&self.writing);
        let (mut sent, mut sealed) = (0, Vec::new());
        while sent < head.len() + body.len() {
            let rest = [
                IoSlice::new(&head[sent.min(head.len())..]),
                IoSlice::new(&body[sent.saturating_sub(head.len())..]),
            ];
            // As much as rustls holds at a time.
            sent += self.session.borrow_mut().writer().write_vectored(&rest)?;
            sealed = self.send_sealed(sealed, timeout).await?;
        }
        head.clear();
        Ok(head)
    }

    /// Says that nothing more will be sent (RFC 8446 §6.1), and so to the socket.
    ///
    /// # Errors
    /// As [`Stream::write`]: then there is nobody to tell.
    pub async fn finish(&self, timeout: IoTimeout) -> io::Result<()> {
        self.session.borrow_mut().send_close_notify();
        self.flush(timeout).await?;
        self.stream.shutdown(Shutdown::Write)
    }

    /// The socket.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Takes what came from the socket; nothing is its end. Appends what it says to `opened`.
    fn feed(&self, mut raw: &[u8], opened: &mut Vec<u8>) -> io::Result<()> {
        let session = &mut *self.session.borrow_mut();
        loop {
            session.read_tls(&mut raw)?;
            let state = session.process_new_packets().map_err(invalid)?;
            let mut reader = session.reader();
            let mut left = state.plaintext_bytes_to_read();
            while left > 0 {
                let piece = reader.fill_buf()?;
                let length = piece.len();
                opened.extend_from_slice(piece);
                reader.consume(length);
                left -= length;
            }
            if raw.is_empty() || state.peer_has_closed() {
                return Ok(());
            }
        }
    }

    /// Whether the client has said that nothing more comes.
    fn has_ended(&self) -> io::Result<bool> {
        match self.session.borrow_mut().reader().fill_buf() {
            Ok(bytes) => Ok(bytes.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends what is sealed, unless somebody does already.
    async fn flush(&self, timeout: IoTimeout) -> io::Result<()> {
        if self.writing.get() || !self.session.borrow().wants_write() {
            return Ok(());
        }
        let _writing = Writing::new(&self.writing);
        self.send_sealed(Vec::new(), timeout).await.map(drop)
    }

    /// Sends what is sealed until there is nothing more; `memory` is used for it and given back.
    async fn send_sealed(&self, mut memory: Vec<u8>, timeout: IoTimeout) -> io::Result<Vec<u8>> {
        while self.session.borrow().wants_write() {
            self.session.borrow_mut().write_tls(&mut memory)?;
            let payload = Payload { head: memory, body: Bytes::new() };
            memory = self.stream.write(payload, timeout).await?;
        }
        Ok(memory)
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Somebody sends, as long as this lives.
struct Writing<'a>(&'a Cell<bool>);

impl<'a> Writing<'a> {
    fn new(writing: &'a Cell<bool>) -> Self {
        writing.set(true);
        Self(writing)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
