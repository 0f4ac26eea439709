//! One attempt to get a response over HTTP/2, as a stream of a connection that other requests use as well.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONTENT_LENGTH, TE};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use phalanx::net::{Bytes, IoTimeout};
use phalanx::time::{now, timeout};
use phalanx_http::client::Content;
use phalanx_http::{Body, Reply, Status};

use crate::config::Proxy;
use crate::proxy::answer::{form, relay_head};
use crate::proxy::attempt::Outcome;
use crate::proxy::body::{BodyError, RequestBody};
use crate::proxy::job::Job;
use crate::proxy::multiplexed::relay::{fields, relay_stream};
use crate::proxy::multiplexed::sent::Sent;
use crate::proxy::relay::Broken;
use crate::proxy::upload::{Received, Upload, Uploading};
use crate::respond::writer::ResponseWriter;
use crate::site::Site;
use crate::upstream::{Claim, Failure, Lease, Member};

/// Maximum number of fields in a head, or in a trailer section.
const MAX_FIELDS: usize = 128;

/// Sends a request on a connection, and relays its response. If this is dropped before the response is complete, the
/// stream is reset.
pub(in crate::proxy) async fn attempt(
    job: &Job,
    (lease, claim): (&Lease, &Claim),
    (body, sent): (&mut RequestBody, &RefCell<Sent>),
    (out, site): (&mut ResponseWriter, &Site),
    reply: Reply,
) -> Outcome {
    let rule = &job.group.rule;
    // HTTP/2 cannot switch protocols (RFC 9113 §8.6).
    if job.protocols.any() {
        return Outcome::Refused(Status::NotImplemented);
    }
    let Some(request) = request(job, lease.member()) else {
        return Outcome::Refused(Status::BadRequest);
    };
    let Some(mut sender) = claim.sender() else { return Outcome::Unprocessed };
    let Ok((response, mut stream)) = sender.send_request(request, job.body == Body::None) else {
        return Outcome::Unprocessed;
    };
    if job.expects && body.invite(IoTimeout::after(rule.idle_timeout)).await.is_err() {
        return Outcome::Broken(None, io::ErrorKind::BrokenPipe.into());
    }
    let waiting = Cell::new(None);
    let mut upload = pin!(upload((body, sent), &mut stream, (job.body, rule), &waiting));
    let mut uploading = Uploading::new(upload.as_mut(), &waiting);
    let received = {
        let mut head = pin!(receive_head(response));
        uploading.receive(head.as_mut(), Some(rule.response_timeout)).await
    };
    let (head, mut content) = match received {
        Received::Head(Ok(response)) => response.into_parts(),
        Received::Head(Err(Lost::Unprocessed)) => return Outcome::Unprocessed,
        Received::Head(Err(Lost::Closed)) if lease.is_reused => return Outcome::Stale,
        Received::Head(Err(Lost::Closed | Lost::Reset)) if uploading.excuses_close() => {
            return Outcome::GivenUp;
        }
        Received::Head(Err(Lost::Closed | Lost::Reset)) => {
            return Outcome::Failed(Failure::Closed);
        }
        Received::Head(Err(Lost::Malformed)) => return Outcome::Failed(Failure::Malformed),
        Received::TimedOut => {
            // The server may be unreachable, so the next requests use a new connection.
            claim.retire();
            return Outcome::Failed(Failure::ResponseTimeout);
        }
        Received::Client(BodyError::Refused(status)) => return Outcome::Refused(status),
        Received::Client(BodyError::Gone) => {
            return Outcome::Broken(None, io::ErrorKind::UnexpectedEof.into());
        }
    };
    sent.borrow_mut().forget();
    lease.member().health.responded(now());
    // If the body is not read completely, the start of the client's next request cannot be found.
    let reply = if uploading.is_complete() { reply } else { reply.closing() };
    let status = head.status.as_u16();
    let framing = framing((status, job.head_only), &head.headers, &content);
    let reply = form(framing, reply);
    relay_head(out, (site, job), (status, framing), fields(&head.headers), reply);
    let relayed = {
        let mut relaying = pin!(relay_stream(out, &mut content, framing, rule.idle_timeout));
        poll_fn(|context| {
            uploading.poll(context);
            // The server would wait for the rest of the request.
            match uploading.has_failed() {
                true => Poll::Ready(Err(Broken::Client(io::ErrorKind::TimedOut.into()))),
                false => relaying.as_mut().poll(context),
            }
        })
        .await
    };
    match relayed {
        Ok(()) => Outcome::Relayed { is_reusable: true, keep_alive: reply.keep_alive },
        Err(Broken::Client(error)) => Outcome::Broken(None, error),
        Err(Broken::Server(failure)) => {
            // The client gets the received part, even if the end is missing.
            let error = out.send().await.err().unwrap_or(io::ErrorKind::UnexpectedEof.into());
            Outcome::Broken(Some(failure), error)
        }
    }
}

/// The head for a server; `None` if the request cannot be expressed.
fn request(job: &Job, member: &Member) -> Option<http::Request<()>> {
    let scheme = if member.upstream.is_tls { "https" } else { "http" };
    let uri = Uri::builder().scheme(scheme).authority(job.host(member));
    let uri = uri.path_and_query(job.target()).build().ok()?;
    let request = http::Request::builder().method(job.method()).uri(uri);
    let mut request = request.body(()).ok()?;
    let headers = request.headers_mut();
    for (name, value) in job.fields() {
        let name = HeaderName::from_bytes(name).ok()?;
        headers.append(name, HeaderValue::from_bytes(value).ok()?);
    }
    if let Some(length) = job.length() {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    if job.takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    Some(request)
}

/// Why there is no head of a response.
enum Lost {
    /// The server has not processed the request.
    Unprocessed,
    /// The connection has ended.
    Closed,
    /// The server has reset the stream.
    Reset,
    /// The head is malformed or too large.
    Malformed,
}

async fn receive_head(response: ResponseFuture) -> Result<http::Response<RecvStream>, Lost> {
    let response = response.await.map_err(|error| match error.is_remote() {
        // Streams that the server has processed end differently (RFC 9113 §6.8 and §8.7).
        true if error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM) => {
            Lost::Unprocessed
        }
        true => Lost::Reset,
        false if error.is_io() => Lost::Closed,
        false => Lost::Malformed,
    })?;
    match response.status().as_u16() {
        200..600 if response.headers().len() <= MAX_FIELDS => Ok(response),
        _ => Err(Lost::Malformed),
    }
}

/// The content of a response with this head.
fn framing((status, head_only): (u16, bool), headers: &HeaderMap, content: &RecvStream) -> Content {
    // The crate checks that the content has the declared length.
    let declared = || headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
    Content::Framed(match content.is_end_stream() {
        _ if head_only || matches!(status, 204 | 304) => Body::None,
        true => Body::Length(0),
        false => declared().map_or(Body::Chunked, Body::Length),
    })
}

/// Sends the body to the server. `waiting` is the time since which it waits for the client.
async fn upload(
    (body, sent): (&mut RequestBody, &RefCell<Sent>),
    stream: &mut SendStream<Bytes>,
    (framing, rule): (Body, &Proxy),
    waiting: &Cell<Option<Duration>>,
) -> Upload {
    if framing == Body::None {
        return Upload::Complete;
    }
    let idle = rule.idle_timeout;
    let mut earlier = sent.borrow().pieces().into_iter();
    loop {
        let piece = match earlier.next() {
            Some(piece) => piece,
            None => {
                let mut piece = Vec::new();
                waiting.set(Some(now()));
                let next = body.next(&mut piece, idle).await;
                waiting.set(None);
                if let Err(error) = next {
                    return Upload::Client(error);
                }
                let piece = Bytes::from(piece);
                sent.borrow_mut().add(&piece);
                piece
            }
        };
        let is_last = earlier.len() == 0 && (piece.is_empty() || body.is_done());
        if !send(stream, piece, is_last, idle).await {
            body.abandon();
            return Upload::Stopped;
        }
        if is_last {
            return Upload::Complete;
        }
    }
}

/// Sends a piece when the server's windows permit it. Returns whether the server accepts it within the `idle` time.
async fn send(
    stream: &mut SendStream<Bytes>,
    mut piece: Bytes,
    is_last: bool,
    idle: Duration,
) -> bool {
    while !piece.is_empty() {
        stream.reserve_capacity(piece.len());
        let mut room = stream.capacity();
        if room == 0 {
            let opened = timeout(idle, poll_fn(|context| stream.poll_capacity(context))).await;
            let Ok(Some(Ok(now))) = opened else { return false };
            room = now;
        }
        let part = piece.split_to(room.min(piece.len()));
        let ends = is_last && piece.is_empty();
        if !part.is_empty() && stream.send_data(part, ends).is_err() {
            return false;
        }
        if ends {
            return true;
        }
    }
    !is_last || stream.send_data(Bytes::new(), true).is_ok()
}
