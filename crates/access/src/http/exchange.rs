//! A request and its answer on a connection.

use std::io::{self, ErrorKind};
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::time::now;
use phalanx_http::client::{Content, Response, parse_response};
use phalanx_http::{BodyParser, Limits, elements};
use phalanx_tls::Wire;

use super::Endpoint;

/// Maximum size of an answer's head, in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// A request.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    /// Further field lines, each ending with CR LF.
    pub(crate) fields: &'a str,
    pub(crate) body: &'a [u8],
    /// Maximum size of the answer's body, in bytes.
    pub(crate) max_body: usize,
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// How long the answer may be cached, if it has `Cache-Control`; zero for `no-store` and `no-cache`.
    pub(crate) max_age: Option<Duration>,
    pub(crate) body: Vec<u8>,
    /// Whether the body ends with the connection, so that it may be truncated.
    pub(crate) is_until_close: bool,
    /// Whether the connection accepts another request.
    pub(crate) keep_alive: bool,
}

/// Sends a request and waits for its answer. Redirects are not followed.
///
/// # Errors
/// Like [`Wire::read`], and `InvalidData` if the answer is malformed or too long. The connection must be closed.
pub(crate) async fn exchange(
    wire: &Wire,
    endpoint: &Endpoint,
    request: &Request<'_>,
    limit: IoTimeout,
) -> io::Result<Answer> {
    let start = now();
    let remaining = || limit.remaining(now().saturating_sub(start));
    wire.write(encode(endpoint, request), remaining()).await?;
    let mut input = Vec::new();
    let response = loop {
        match parse_response(&input, false).map_err(|error| invalid(&error.to_string()))? {
            Some(interim) if interim.status < 200 => drop(input.drain(..interim.head)),
            Some(response) => break response,
            None if input.len() > MAX_HEAD_BYTES => return Err(invalid("the head is too long")),
            None => read(wire, &mut input, remaining()).await?,
        }
    };
    let (max_age, mut body) = (max_age(&response, &input), Vec::new());
    let limits = Limits { body: request.max_body as u64, ..Limits::default() };
    let message = format!("the body is malformed, or longer than {} bytes", request.max_body);
    let too_long = || invalid(&message);
    let mut rest = input.split_off(response.head);
    match response.content {
        Content::Framed(framing) => {
            let mut parser = BodyParser::new(framing, &limits).map_err(|_| too_long())?;
            loop {
                let consumed = parser.copy(&rest, &mut body).map_err(|_| too_long())?;
                rest.drain(..consumed);
                if parser.is_done() {
                    break;
                }
                read(wire, &mut rest, remaining()).await?;
            }
        }
        Content::UntilClose => {
            while rest.len() <= request.max_body && wire.read(&mut rest, remaining()).await? > 0 {}
            if rest.len() > request.max_body {
                return Err(too_long());
            }
            body = std::mem::take(&mut rest);
        }
    }
    // Extra bytes would be taken for the next answer.
    let keep_alive = response.keep_alive && rest.is_empty();
    let is_until_close = response.content == Content::UntilClose;
    Ok(Answer { status: response.status, max_age, body, is_until_close, keep_alive })
}

async fn read(wire: &Wire, input: &mut Vec<u8>, limit: IoTimeout) -> io::Result<()> {
    match wire.read(input, limit).await? {
        0 => Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")),
        _ => Ok(()),
    }
}

/// Whether the server has closed the connection.
pub(super) fn is_closed(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, message)
}

fn encode(endpoint: &Endpoint, request: &Request<'_>) -> Vec<u8> {
    let Request { method, fields, body, .. } = request;
    let (target, host) = (&endpoint.target, &endpoint.authority);
    let length = match *method {
        "GET" => String::new(),
        _ => format!("Content-Length: {}\r\n", body.len()),
    };
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: phalanx\r\n{fields}{length}\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// `max-age` in `Cache-Control`.
fn max_age(response: &Response, input: &[u8]) -> Option<Duration> {
    let fields = response.fields(input);
    let cache_control = fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"cache-control"));
    let mut found = None;
    for directive in cache_control.flat_map(|(_, value)| elements(value)) {
        let directive = str::from_utf8(directive).unwrap_or_default().to_ascii_lowercase();
        if matches!(&*directive, "no-store" | "no-cache") {
            return Some(Duration::ZERO);
        }
        let age = directive.strip_prefix("max-age=").and_then(|age| age.parse().ok());
        found = found.or(age.map(Duration::from_secs));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_of_answers() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (value, expected) in [
            ("max-age=300", seconds(300)),
            ("public, Max-Age=60, must-revalidate", seconds(60)),
            ("max-age=60, no-store", seconds(0)),
            ("no-cache", seconds(0)),
            ("max-age=-1", None),
            ("public", None),
        ] {
            let text =
                format!("HTTP/1.1 200 OK\r\nCache-Control: {value}\r\nContent-Length: 0\r\n\r\n");
            let response = parse_response(text.as_bytes(), false).unwrap().unwrap();
            assert_eq!(max_age(&response, text.as_bytes()), expected, "{value}");
        }
    }
}
