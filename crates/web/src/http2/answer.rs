//! HTTP/2 responses: sends head and content as flow control allows.

use std::io;
use std::task::{Context, Poll, ready};

use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderMap, Response, StatusCode};
use phalanx::net::Bytes;

use crate::http2::fields::field;
use crate::respond::writer::ResponseStream;

/// Send capacity requested from h2 at a time: a few frames of the usual size, in bytes.
const MAX_RESERVED_BYTES: usize = 64 * 1024;

/// Initial capacity for the fields of a response; it grows if necessary.
const TYPICAL_FIELDS: usize = 12;

/// The response of one stream.
pub(super) struct StreamAnswer {
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
    pub(super) fn new(respond: SendResponse<Bytes>, is_tls: bool) -> Self {
        Self { is_tls, state: State::Head(respond) }
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

impl ResponseStream for StreamAnswer {
    fn is_tls(&self) -> bool {
        self.is_tls
    }

    fn start(&mut self, block: &[u8], content: Option<u64>) -> io::Result<()> {
        let State::Head(respond) = &mut self.state else {
            return Err(io::Error::other("a second response on a stream"));
        };
        let response = response(block).ok_or_else(|| io::Error::other("invalid field block"))?;
        let stream = respond.send_response(response, content == Some(0)).map_err(error)?;
        self.state = match content {
            Some(0) => State::Done,
            content => State::Content(stream, content),
        };
        Ok(())
    }

    fn poll_send(
        &mut self,
        content: &mut Bytes,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        // Content beyond the declared length is a bug, and must not reach another stream.
        let State::Content(stream, left) = &mut self.state else {
            return Poll::Ready(Err(io::Error::other("content behind the end of a response")));
        };
        stream.reserve_capacity(content.len().min(MAX_RESERVED_BYTES));
        while stream.capacity() == 0 {
            match ready!(stream.poll_capacity(context)) {
                Some(granted) => granted.map_err(error)?,
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            };
        }
        let piece = content.split_to(stream.capacity().min(content.len()));
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
        Poll::Ready(Ok(()))
    }

    fn end(&mut self, result: io::Result<()>) {
        let reason = match &result {
            // The client did not open its window in time. This is no server error (RFC 9113 §7).
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Reason::CANCEL,
            _ => Reason::INTERNAL_ERROR,
        };
        match (std::mem::replace(&mut self.state, State::Done), result) {
            (State::Head(mut respond), _) => respond.send_reset(reason),
            (State::Content(mut stream, None), Ok(())) => {
                drop(stream.send_data(Bytes::new(), true));
            }
            (State::Content(mut stream, _), _) => stream.send_reset(reason),
            (State::Done, _) => (),
        }
    }
}

/// The response head with this field block, which consists of literals with literal names.
fn response(mut block: &[u8]) -> Option<Response<()>> {
    let mut response = Response::new(());
    let mut fields = HeaderMap::with_capacity(TYPICAL_FIELDS);
    while let Some(rest) = block.strip_prefix(b"\0") {
        block = rest;
        let (name, value) = (text(&mut block)?, text(&mut block)?);
        if name == b":status" {
            *response.status_mut() = StatusCode::from_bytes(value).ok()?;
        } else {
            let (name, value) = field(name, value).ok()?;
            fields.append(name, value);
        }
    }
    *response.headers_mut() = fields;
    block.is_empty().then_some(response)
}

/// Reads a string literal without Huffman coding (RFC 7541 §5.2).
fn text<'a>(block: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (first, mut rest) = block.split_first()?;
    let mut length = usize::from(*first);
    if length == 127 {
        for shift in [0, 7, 14, 21] {
            let (byte, after) = rest.split_first()?;
            length += usize::from(byte & 127) << shift;
            rest = after;
            if *byte < 128 {
                break;
            }
        }
    }
    let (text, rest) = rest.split_at_checked(length)?;
    *block = rest;
    Some(text)
}

fn error(error: h2::Error) -> io::Error {
    io::Error::other(error)
}
