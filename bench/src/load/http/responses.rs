//! Finds the ends of responses in the bytes of a connection.

use phalanx_http::client::{BadResponse, Content, parse_response};
use phalanx_http::{Body, BodyParser, Limits};

/// Maximum size of a response head in bytes.
const MAX_HEAD_LEN: usize = 64 * 1024;

/// Limits without a bound on the length of responses.
const UNLIMITED: Limits = Limits {
    request_line: MAX_HEAD_LEN,
    head: MAX_HEAD_LEN,
    headers: 128,
    body: u64::MAX,
    chunk_extensions: usize::MAX,
};

/// A complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) keep_alive: bool,
    /// Index of the answered request on its connection, counted from zero; `None` means the oldest.
    pub(crate) number: Option<u64>,
}

/// Parser of the responses of one connection.
#[derive(Debug, Default)]
pub(crate) struct ResponseParser {
    /// Received bytes; the unparsed ones begin at `at`.
    buffer: Vec<u8>,
    at: usize,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    Body(Answer, BodyParser),
    /// Remaining bytes of the body.
    Length(Answer, u64),
    UntilClose(Answer),
}

impl ResponseParser {
    /// The buffer to which received bytes are appended.
    pub(crate) fn space(&mut self) -> &mut Vec<u8> {
        self.buffer.drain(..self.at);
        self.at = 0;
        &mut self.buffer
    }

    /// Number of following bytes that need not be received into memory, after [`next`](Self::next) returned
    /// `None`.
    pub(crate) fn ahead(&self) -> u64 {
        match self.state {
            State::Length(_, left) => left,
            _ => 0,
        }
    }

    /// Accounts for `bytes` of [`ahead`](Self::ahead) that were received and discarded.
    pub(crate) fn skipped(&mut self, bytes: u64) {
        if let State::Length(_, left) = &mut self.state {
            *left -= bytes;
        }
    }

    /// Resets the state for a new connection and keeps the memory.
    pub(crate) fn reset(&mut self) {
        self.buffer.clear();
        self.at = 0;
        self.state = State::Head;
    }

    /// The next complete response; `None` if more bytes are needed.
    pub(crate) fn next(&mut self) -> Result<Option<Answer>, BadResponse> {
        loop {
            let bytes = &self.buffer[self.at..];
            match &mut self.state {
                State::Head if bytes.is_empty() => return Ok(None),
                State::Head => {
                    let Some(response) = parse_response(bytes, false)? else {
                        let endless = bytes.len() > MAX_HEAD_LEN;
                        return if endless { Err(BadResponse) } else { Ok(None) };
                    };
                    self.at += response.head;
                    let (status, keep_alive) = (response.status, response.keep_alive);
                    let answer = Answer { status, keep_alive, number: None };
                    match response.content {
                        // No request asked for an upgrade; other interim responses are skipped.
                        _ if response.status == 101 => return Err(BadResponse),
                        _ if response.status < 200 => (),
                        Content::Framed(Body::Length(length)) => {
                            self.state = State::Length(answer, length);
                        }
                        Content::UntilClose => self.state = State::UntilClose(answer),
                        Content::Framed(body) => {
                            let body =
                                BodyParser::new(body, &UNLIMITED).map_err(|_| BadResponse)?;
                            self.state = State::Body(answer, body);
                        }
                    }
                }
                State::Body(answer, body) => {
                    self.at += body.feed(bytes).map_err(|_| BadResponse)?;
                    if !body.is_done() {
                        return Ok(None);
                    }
                    let answer = *answer;
                    self.state = State::Head;
                    return Ok(Some(answer));
                }
                State::Length(answer, left) => {
                    let here = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    self.at += here;
                    *left -= here as u64;
                    if *left > 0 {
                        return Ok(None);
                    }
                    let answer = *answer;
                    self.state = State::Head;
                    return Ok(Some(answer));
                }
                State::UntilClose(_) => {
                    self.at = self.buffer.len();
                    return Ok(None);
                }
            }
        }
    }

    /// Handles an orderly close of the connection; returns the response that it completes, if any.
    pub(crate) fn close(&mut self) -> Option<Answer> {
        match std::mem::take(&mut self.state) {
            State::UntilClose(answer) => Some(answer),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses all answers in `bytes`, fed in pieces.
    fn read(bytes: &[u8], piece: usize) -> Result<Vec<(u16, bool)>, BadResponse> {
        let (mut answers, mut found) = (ResponseParser::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            answers.space().extend_from_slice(piece);
            while let Some(answer) = answers.next()? {
                found.push((answer.status, answer.keep_alive));
            }
        }
        found.extend(answers.close().map(|answer| (answer.status, answer.keep_alive)));
        Ok(found)
    }

    #[test]
    fn every_framing_parses_in_any_pieces() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
            HTTP/1.1 103 Early Hints\r\n\r\n\
            HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
            HTTP/1.1 304 Same\r\n\r\n\
            HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end";
        let wanted = [(200, true), (404, true), (304, true), (200, false)];
        for piece in 1..bytes.len() + 1 {
            assert_eq!(read(bytes, piece).unwrap(), wanted, "in pieces of {piece}");
        }
    }

    #[test]
    fn invalid_responses_are_errors() {
        assert!(read(b"hello\r\n\r\n", 99).is_err());
        assert!(read(b"HTTP/1.1 101 Over\r\n\r\n", 99).is_err());
        assert!(read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 99).is_err());
        let mut endless = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
        endless.resize(100_000, b'a');
        assert!(read(&endless, 10_000).is_err());
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", 99).unwrap(), []);
    }
}
