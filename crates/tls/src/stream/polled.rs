//! An encrypted stream for poll functions: rustls over a [`Polled`] socket.

use std::fmt;
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::task::{Context, Poll, ready};

use phalanx::net::{PollStream, Polled, Stream};
use rustls::Connection;

/// Maximum number of encrypted bytes that one read takes.
const MAX_READ: usize = 16 * 1024;

/// The socket is taken only by the destructor.
const OPEN: &str = "the socket is open";

/// A [`TlsStream`](crate::TlsStream) for poll functions, made by [`into_polled`](crate::TlsStream::into_polled). If it
/// is dropped, the bytes that it has accepted are sent, for at most 10 seconds, but no close_notify.
///
/// A pending write, flush or shutdown must be polled again, even if its result is no longer needed: until then, reads
/// do not send protocol messages, such as the response to a key update.
pub struct PolledTls {
    /// Taken when this is dropped.
    socket: Option<Polled>,
    session: Connection,
    /// Plaintext to be read before that of the session: bytes that arrived with the end of the handshake, or did not
    /// fit in the session's buffer.
    opened: Vec<u8>,
    /// Encrypted bytes to send; the socket has accepted the first `sent` of them.
    sealed: Vec<u8>,
    sent: usize,
    /// Whether a task waits until they are sent, whose waker a reader must not replace.
    is_awaited: bool,
    /// Whether close_notify is among the encrypted bytes.
    is_closed: bool,
}

impl PolledTls {
    pub(crate) fn new(stream: Stream, session: Connection, opened: Vec<u8>) -> Self {
        let (socket, sealed) = (Some(Polled::new(stream)), Vec::new());
        Self { socket, session, opened, sealed, sent: 0, is_awaited: false, is_closed: false }
    }

    /// The socket.
    pub fn stream(&self) -> &Stream {
        self.socket.as_ref().expect(OPEN).stream()
    }

    /// Whether the kernel had not accepted all encrypted bytes at the last poll.
    pub fn is_sending(&self) -> bool {
        self.sent < self.sealed.len() || self.socket.as_ref().expect(OPEN).is_sending()
    }

    fn socket(&mut self) -> &mut Polled {
        self.socket.as_mut().expect(OPEN)
    }

    /// Passes all encrypted bytes to the socket.
    fn poll_sealed(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.sent == self.sealed.len() {
                // An idle connection keeps no buffer.
                (self.sealed, self.sent) = (Vec::new(), 0);
                if !self.session.wants_write() {
                    return Poll::Ready(Ok(()));
                }
                while self.session.wants_write() {
                    self.session.write_tls(&mut self.sealed)?;
                }
            }
            let rest = [IoSlice::new(&self.sealed[self.sent..])];
            let socket = self.socket.as_mut().expect(OPEN);
            self.sent += ready!(socket.poll_write(context, &rest))?;
        }
    }

    /// Like [`poll_sealed`](Self::poll_sealed), for the task that writes.
    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = self.poll_sealed(context);
        self.is_awaited = sent.is_pending();
        sent
    }

    /// Sends protocol messages in response to received ones, such as a key update, or the alert for an error. If a task
    /// waits to send, that task sends them.
    fn respond(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let is_idle = self.sent == self.sealed.len() && !self.session.wants_write();
        if is_idle || self.is_awaited {
            return Ok(());
        }
        match self.poll_sealed(context) {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }

    /// Passes decrypted bytes to `put`. Returns `None` if there are none yet.
    fn read_opened(
        &mut self,
        room: usize,
        put: &mut dyn FnMut(&[u8]),
    ) -> Option<io::Result<usize>> {
        if !self.opened.is_empty() {
            let count = room.min(self.opened.len());
            put(&self.opened[..count]);
            self.opened.drain(..count);
            return Some(Ok(count));
        }
        let mut reader = self.session.reader();
        let count = match reader.fill_buf() {
            Ok(bytes) => {
                let count = room.min(bytes.len());
                if count > 0 {
                    put(&bytes[..count]);
                }
                count
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(error) => return Some(Err(error)),
        };
        reader.consume(count);
        Some(Ok(count))
    }
}

/// Processes received bytes; an empty slice is the end. Moves plaintext to `opened` when the buffer of the session is
/// full: about one record.
fn open(session: &mut Connection, mut raw: &[u8], opened: &mut Vec<u8>) -> io::Result<()> {
    loop {
        session.read_tls(&mut raw)?;
        let state = session
            .process_new_packets()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if raw.is_empty() || state.peer_has_closed() {
            return Ok(());
        }
        let before = opened.len();
        opened.resize(before + state.plaintext_bytes_to_read(), 0);
        session.reader().read_exact(&mut opened[before..])?;
    }
}

impl PollStream for PolledTls {
    fn is_home(&self) -> bool {
        self.socket.as_ref().expect(OPEN).is_home()
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: usize,
        put: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        if room == 0 {
            return Poll::Ready(Ok(0));
        }
        loop {
            if let Some(read) = self.read_opened(room, put) {
                return Poll::Ready(read);
            }
            let socket = self.socket.as_mut().expect(OPEN);
            let (session, plain, mut opened) = (&mut self.session, &mut self.opened, Ok(()));
            let mut feed = |raw: &[u8]| opened = open(session, raw, plain);
            let received = socket.poll_read(context, MAX_READ, &mut feed)?;
            if received == Poll::Ready(0) {
                feed(&[]);
            }
            self.respond(context)?;
            ready!(received);
            opened?;
        }
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_sent(context))?;
        // As much as rustls buffers at a time.
        let length = self.session.writer().write_vectored(parts)?;
        // The bytes are accepted, even if the socket is not ready.
        match self.poll_sealed(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(length)),
        }
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_sent(context))?;
        self.socket().poll_flush(context)
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.session.send_close_notify();
        }
        ready!(self.poll_sent(context))?;
        self.socket().poll_shutdown(context)
    }
}

impl Drop for PolledTls {
    fn drop(&mut self) {
        let Some(socket) = self.socket.take() else { return };
        let mut rest = std::mem::take(&mut self.sealed).split_off(self.sent);
        while self.session.wants_write() && self.session.write_tls(&mut rest).is_ok() {}
        socket.finish(rest);
    }
}

impl fmt::Debug for PolledTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolledTls").field("socket", &self.socket).finish_non_exhaustive()
    }
}
