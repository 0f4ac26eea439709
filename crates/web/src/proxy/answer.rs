//! The head of a server's response: received, checked and passed on.

use std::io;
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::time::now;
use phalanx_http::client::{Content, Response, parse_and_repair};
use phalanx_http::{Body, Reply, Version};
use phalanx_tls::Wire;

use crate::clock;
use crate::proxy::fields::{Field, Named, collect, is_for_client};
use crate::proxy::job::Job;
use crate::proxy::location::location;
use crate::respond::writer::ResponseWriter;
use crate::site::Site;
use crate::site::rules::private;
use crate::socket::network::is_time_limit;
use crate::upstream::Failure;

/// Size of a response's head and of the interim responses before it, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// Receives the head of a response into `input`, perhaps followed by a piece of the body. Interim responses are
/// removed, since the client has already got a 100. They stay in `input` if no final response follows, so an empty
/// `input` means that nothing has arrived. Without a `limit`, the caller limits the time.
pub(super) async fn receive_head(
    wire: &Wire,
    input: &mut Vec<u8>,
    job: &Job,
    limit: Option<Duration>,
) -> Result<Response, Failure> {
    let begun = now();
    // Length of the interim responses so far.
    let mut start = 0;
    // The head is parsed only after a line end, which alone can complete it. So a server that sends single bytes costs
    // no more than another.
    let mut has_line = false;
    loop {
        if has_line {
            match parse_and_repair(&mut input[start..], job.head_only) {
                Ok(Some(response)) if response.head > MAX_HEAD => return Err(Failure::Malformed),
                Ok(Some(response)) if is_final(&response, &input[start..], job)? => {
                    input.drain(..start);
                    return Ok(response);
                }
                Ok(Some(response)) => {
                    start += response.head;
                    continue;
                }
                Ok(None) => (),
                Err(_) => return Err(Failure::Malformed),
            }
        }
        if input.len() > MAX_HEAD {
            return Err(Failure::Malformed);
        }
        let before = input.len();
        let timeout = limit.map_or(IoTimeout::NONE, IoTimeout::after);
        match wire.read(input, timeout.remaining(now().saturating_sub(begun))).await {
            Ok(1..) => has_line = input[before..].contains(&b'\n'),
            Ok(0) => return Err(Failure::Closed),
            Err(error) => return Err(read_failure(&error, limit)),
        }
    }
}

/// The failure for an `error` of a receive with this `limit`.
fn read_failure(error: &io::Error, limit: Option<Duration>) -> Failure {
    match limit.is_some() && is_time_limit(error) {
        true => Failure::ResponseTimeout,
        false => Failure::Closed,
    }
}

/// Whether a response is the final one.
fn is_final(response: &Response, input: &[u8], job: &Job) -> Result<bool, Failure> {
    match response.status {
        101 if job.protocols.allow(response.fields(input)) => Ok(true),
        // The request has not proposed the protocol.
        101 => Err(Failure::Malformed),
        100..200 => Ok(false),
        200..600 => Ok(true),
        _ => Err(Failure::Malformed),
    }
}

/// How to frame the response to the client. For an HTTP/1.0 client, the end of content of unknown length is the close
/// of the connection.
pub(super) fn form(content: Content, reply: Reply) -> Reply {
    let is_unknown = matches!(content, Content::UntilClose | Content::Framed(Body::Chunked));
    match reply.version {
        Version::Http10 if is_unknown => reply.closing(),
        _ => reply,
    }
}

/// Writes the head for the client, with the status and the `fields` of the server's head.
pub(super) fn relay_head<'a>(
    out: &mut ResponseWriter,
    (site, job): (&Site, &Job),
    (status, content): (u16, Content),
    fields: impl Iterator<Item = Field<'a>>,
    reply: Reply,
) {
    let fields: &[Field<'_>] = &collect(fields);
    let named = Named::of(fields);
    let is_tls = out.is_tls();
    let alt_svc = site.alt_svc().field(out.alt_svc).filter(|_| is_tls);
    let transport = job.transport_fields(site, is_tls);
    let mut head = clock::relayed_head(&mut out.buffer, status, reply);
    for (name, value) in fields {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let is_replaced = transport.is_some() && is("strict-transport-security")
            || job.is_private && is("cache-control");
        if is_for_client(name, &named) && !is_replaced {
            head = match is("location") {
                true => head.field(name, &location(&job.group, value)),
                false => head.field(name, value),
            };
        }
    }
    if let Some(transport) = transport {
        head = head.fields(transport.all());
    }
    if job.is_private {
        head = head.field("Cache-Control", private_cache(fields).as_bytes());
    }
    if let Some(alt_svc) = alt_svc {
        head = head.fields(alt_svc.all());
    }
    // An HTTP/1.1 client must get the protocol that the server requires (RFC 9110 §15.5.22).
    let requires = status == 426 && reply.version == Version::Http11;
    if status == 101 || requires {
        head = head.field("Connection", b"upgrade");
        for value in of(fields, "upgrade") {
            head = head.field("Upgrade", value);
        }
    }
    if status == 101 {
        return head.finish();
    }
    let head = match content {
        Content::Framed(Body::Length(length)) => head.length(length),
        Content::Framed(Body::None) if reply.head_only => match declared(fields) {
            Some(length) => head.length(length),
            None => head,
        },
        Content::Framed(Body::None) => head.length(0),
        Content::Framed(Body::Chunked) | Content::UntilClose => head.streamed(reply.version),
    };
    head.finish();
}

/// `Cache-Control` for a protected path, derived from the server's value.
fn private_cache(fields: &[Field<'_>]) -> String {
    let values = of(fields, "cache-control");
    let values: Vec<_> = values.map(String::from_utf8_lossy).collect();
    private(&values.join(","))
}

/// The values of the `fields` with this name.
fn of<'a>(fields: &[Field<'a>], wanted: &str) -> impl Iterator<Item = &'a [u8]> {
    let wanted =
        fields.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes()));
    wanted.map(|(_, value)| *value)
}

/// The content length in a response to HEAD, which the parser has validated.
fn declared(fields: &[Field<'_>]) -> Option<u64> {
    let value = of(fields, "content-length").next()?;
    str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn only_the_time_limit_is_a_response_timeout() {
        let limit = Some(Duration::from_secs(1));
        let own = io::Error::from(io::ErrorKind::TimedOut);
        let kernel = io::Error::from(Errno::TIMEDOUT);
        assert_eq!(kernel.kind(), own.kind());
        assert_eq!(read_failure(&own, limit), Failure::ResponseTimeout);
        assert_eq!(read_failure(&own, None), Failure::Closed);
        assert_eq!(read_failure(&kernel, limit), Failure::Closed);
        assert_eq!(read_failure(&io::ErrorKind::ConnectionReset.into(), limit), Failure::Closed);
    }
}
