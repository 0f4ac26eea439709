//! HTTP/2 responses: converts the head into fields, and sends the content as flow control allows.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderMap, Response, StatusCode};
use memchr::{memchr, memchr_iter, memmem};
use phalanx::net::{Bytes, IoTimeout, Payload};
use phalanx::timeout;

use crate::http2::fields::field;

/// Send capacity requested from h2 at a time: a few frames of the usual size, in bytes.
const MAX_RESERVED_BYTES: usize = 64 * 1024;

/// Initial capacity for the fields of a response; it grows if necessary.
const TYPICAL_FIELDS: usize = 12;

/// The response of one stream.
pub(crate) struct StreamAnswer {
    /// The request is a HEAD request.
    head_only: bool,
    /// The connection uses TLS.
    is_tls: bool,
    state: State,
}

enum State {
    /// Nothing was sent.
    Head(SendResponse<Bytes>),
    /// The head was sent. Contains the remaining bytes of content, or `None` if the length is unknown.
    Content(SendStream<Bytes>, Option<u64>),
    Done,
}

impl StreamAnswer {
    pub(super) fn new(respond: SendResponse<Bytes>, head_only: bool, is_tls: bool) -> Self {
        Self { head_only, is_tls, state: State::Head(respond) }
    }

    /// Whether the response is sent over TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Sends `payload`, which starts with a head or continues the content. Returns the memory of its head.
    ///
    /// # Errors
    /// If the stream or connection has ended, or the client did not open its window in time.
    pub(crate) async fn send(
        &mut self,
        payload: Payload,
        time_limit: IoTimeout,
    ) -> io::Result<Vec<u8>> {
        let (mut memory, mut begin) = (payload.head, 0);
        if let State::Head(respond) = &mut self.state {
            let (response, length, end) = take_head(&memory, self.head_only)?;
            let stream = respond.send_response(response, length == Some(0)).map_err(error)?;
            self.state = match length {
                Some(0) => State::Done,
                length => State::Content(stream, length),
            };
            begin = end;
        }
        let limit = time_limit.duration();
        if begin < memory.len() {
            self.content(Bytes::copy_from_slice(&memory[begin..]), limit).await?;
        }
        self.content(payload.body, limit).await?;
        memory.clear();
        Ok(memory)
    }

    async fn content(&mut self, mut bytes: Bytes, limit: Duration) -> io::Result<()> {
        while !bytes.is_empty() {
            // Content beyond the promised length is a bug, and must not reach another stream.
            let State::Content(stream, left) = &mut self.state else {
                return Err(io::Error::other("content behind the end of a response"));
            };
            stream.reserve_capacity(bytes.len().min(MAX_RESERVED_BYTES));
            // Capacity is nearly always available; then no timer is needed.
            let room = match stream.capacity() {
                0 => timeout(limit, room(stream))
                    .await
                    .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??,
                room => room,
            };
            let piece = bytes.split_to(room.min(bytes.len()));
            if let Some(left) = left {
                *left = left
                    .checked_sub(piece.len() as u64)
                    .ok_or_else(|| io::Error::other("more content than the declared length"))?;
            }
            let last = *left == Some(0);
            stream.send_data(piece, last).map_err(error)?;
            if last {
                self.state = State::Done;
            }
        }
        Ok(())
    }

    /// Ends the stream. An incomplete response is reset.
    pub(super) fn end(self) {
        match self.state {
            State::Head(mut respond) => respond.send_reset(Reason::INTERNAL_ERROR),
            State::Content(mut stream, None) => drop(stream.send_data(Bytes::new(), true)),
            State::Content(mut stream, Some(_)) => stream.send_reset(Reason::INTERNAL_ERROR),
            State::Done => (),
        }
    }

    /// Ends the stream without a response.
    pub(super) fn reset(self, reason: Reason) {
        match self.state {
            State::Head(mut respond) => respond.send_reset(reason),
            State::Content(mut stream, _) => stream.send_reset(reason),
            State::Done => (),
        }
    }
}

/// Waits for capacity: of the stream's window, the connection's window and h2's buffer.
async fn room(stream: &mut SendStream<Bytes>) -> io::Result<usize> {
    while stream.capacity() == 0 {
        match poll_fn(|context| stream.poll_capacity(context)).await {
            Some(Ok(_)) => (),
            Some(Err(error)) => return Err(self::error(error)),
            None => return Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
    Ok(stream.capacity())
}

/// Parses the head at the start of `bytes`. Also returns the length of the content, if specified, and the
/// length of the head.
fn take_head(bytes: &[u8], head_only: bool) -> io::Result<(Response<()>, Option<u64>, usize)> {
    let ours = || io::Error::other("invalid response head");
    let end = memmem::find(bytes, b"\r\n\r\n").ok_or_else(ours)?;
    // Each ends with a line feed; line feeds within values were replaced by spaces.
    let lines = memchr_iter(b'\n', &bytes[..end + 2]);
    let (mut fields, mut length, mut status, mut begin) =
        (HeaderMap::with_capacity(TYPICAL_FIELDS), None, None, 0);
    for newline in lines {
        let line = &bytes[begin..newline];
        begin = newline + 1;
        if status.is_none() {
            let code = line.get(9..12).ok_or_else(ours)?;
            status = Some(StatusCode::from_bytes(code).map_err(|_| ours())?);
            continue;
        }
        let colon = memchr(b':', line).ok_or_else(ours)?;
        let (name, value) = field(&line[..colon], line[colon + 1..].trim_ascii())?;
        if name == http::header::CONTENT_LENGTH {
            length = Some(value.to_str().ok().and_then(|n| n.parse().ok()).ok_or_else(ours)?);
        }
        // Fields that HTTP/2 forbids (RFC 9113 §8.2.2).
        if !["connection", "keep-alive", "transfer-encoding", "upgrade"].contains(&name.as_str()) {
            fields.append(name, value);
        }
    }
    let status = status.ok_or_else(ours)?;
    let empty = head_only || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    let mut response = Response::new(());
    (*response.status_mut(), *response.headers_mut()) = (status, fields);
    Ok((response, if empty { Some(0) } else { length }, end + 4))
}

fn error(error: h2::Error) -> io::Error {
    io::Error::other(error)
}
