//! One attempt to get a response: the request is sent while the response is received.
//!
//! A server may answer before it has read all of the request, and may not read on until its answer is read. Therefore
//! neither direction waits for the other.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::time::now;
use phalanx_http::client::Response;
use phalanx_http::{Body, Reply, Status};
use phalanx_tls::Wire;

use crate::config::Proxy;
use crate::proxy::answer::{form, receive_head, relay_head};
use crate::proxy::body::{BodyError, RequestBody};
use crate::proxy::job::Job;
use crate::proxy::multiplexed::{self, Sent};
use crate::proxy::relay::{Broken, relay_body};
use crate::proxy::upload::{Received, Upload, Uploading};
use crate::respond::writer::ResponseWriter;
use crate::site::Site;
use crate::socket::buffers;
use crate::upstream::{Failure, Lease, Line};

/// How an attempt has ended.
pub(super) enum Outcome {
    /// The response was relayed. The server's connection may be used again if `is_reusable`.
    Relayed { is_reusable: bool, keep_alive: bool },
    /// The server has switched the protocol. `received` are the bytes after its response.
    Upgraded { received: Vec<u8> },
    /// There is no response.
    Failed(Failure),
    /// There is no response, because the client has kept the server waiting for the body for too long.
    GivenUp,
    /// The server has closed the connection before it sent anything.
    Stale,
    /// The server has not processed the request, so any request may be sent again.
    Unprocessed,
    /// The client's body is invalid or too slow; the client gets this response.
    Refused(Status),
    /// The response has begun and cannot be completed.
    Broken(Option<Failure>, io::Error),
}

/// Sends a request over the connection of `lease`, and relays its response.
pub(super) async fn attempt(
    job: &Job,
    lease: &Lease,
    body: &mut RequestBody,
    sent: &RefCell<Sent>,
    (out, site): (&mut ResponseWriter, &Site),
    reply: Reply,
) -> Outcome {
    let wire = match &lease.line {
        Line::Wire(wire) => wire,
        // Boxed, so that requests with HTTP/1.1 do not reserve its memory.
        Line::Multiplexed(claim) => {
            let at = (lease, claim);
            return Box::pin(multiplexed::attempt(job, at, (body, sent), (out, site), reply)).await;
        }
    };
    let rule = &job.group.rule;
    let sending = IoTimeout::after(rule.idle_timeout);
    match wire.write(job.head(lease.member()), sending).await {
        Ok(memory) => buffers::recycle(memory),
        Err(_) if lease.is_reused => return Outcome::Stale,
        Err(_) => return Outcome::Failed(Failure::Closed),
    }
    if job.expects && body.invite(sending).await.is_err() {
        return Outcome::Broken(None, io::ErrorKind::BrokenPipe.into());
    }
    let waiting = Cell::new(None);
    let mut upload = pin!(upload(body, wire, (job.body, rule), &waiting));
    let mut uploading = Uploading::new(upload.as_mut(), &waiting);
    let mut input = Vec::new();
    // Without a body, the receives have the time limit, which costs less than a timer.
    let limit = Some(rule.response_timeout);
    let (read_limit, timer_limit) =
        if job.body == Body::None { (limit, None) } else { (None, limit) };
    let received = {
        let mut head = pin!(receive_head(wire, &mut input, job, read_limit));
        uploading.receive(head.as_mut(), timer_limit).await
    };
    let response = match received {
        Received::Head(Ok(response)) => response,
        Received::Head(Err(Failure::Closed)) if lease.is_reused && input.is_empty() => {
            return Outcome::Stale;
        }
        Received::Head(Err(Failure::Closed)) if uploading.excuses_close() => {
            return Outcome::GivenUp;
        }
        Received::Head(Err(failure)) => return Outcome::Failed(failure),
        Received::TimedOut => return Outcome::Failed(Failure::ResponseTimeout),
        Received::Client(BodyError::Refused(status)) => return Outcome::Refused(status),
        Received::Client(BodyError::Gone) => {
            return Outcome::Broken(None, io::ErrorKind::UnexpectedEof.into());
        }
    };
    lease.member().health.responded(now());
    // If the body is not read completely, the start of the client's next request cannot be found.
    let reply = if uploading.is_complete() { reply } else { reply.closing() };
    let reply = form(response.content, reply);
    let reply = Reply { keep_alive: reply.keep_alive || response.status == 101, ..reply };
    let head = (response.status, response.content);
    relay_head(out, (site, job), head, response.fields(&input), reply);
    relay(&response, input, &mut uploading, (wire, out, reply), rule.idle_timeout).await
}

/// Relays a response whose head is at the start of `input` and has been written.
async fn relay(
    response: &Response,
    mut input: Vec<u8>,
    uploading: &mut Uploading<'_, impl Future<Output = Upload>>,
    (wire, out, reply): (&Wire, &mut ResponseWriter, Reply),
    idle: Duration,
) -> Outcome {
    input.drain(..response.head);
    if response.status == 101 {
        return match out.send().await {
            Ok(()) => Outcome::Upgraded { received: input },
            Err(error) => Outcome::Broken(None, error),
        };
    }
    let relayed = {
        let timeout = IoTimeout::after(idle);
        let mut relaying = pin!(relay_body(out, wire, &mut input, response.content, timeout));
        poll_fn(|context| {
            uploading.poll(context);
            relaying.as_mut().poll(context)
        })
        .await
    };
    match relayed {
        Ok(()) => Outcome::Relayed {
            is_reusable: response.keep_alive && uploading.is_complete() && input.is_empty(),
            keep_alive: reply.keep_alive,
        },
        Err(Broken::Client(error)) => Outcome::Broken(None, error),
        Err(Broken::Server(failure)) => {
            // The client gets the received part, even if the end is missing.
            let sent = out.send().await;
            let error = sent.err().unwrap_or(io::ErrorKind::UnexpectedEof.into());
            // The server is not at fault if the client has not completed its request.
            Outcome::Broken(Some(failure).filter(|_| !uploading.has_failed()), error)
        }
    }
}

/// Sends the body to the server. `waiting` is the time since which it waits for the client.
async fn upload(
    body: &mut RequestBody,
    wire: &Wire,
    (framing, rule): (Body, &Proxy),
    waiting: &Cell<Option<Duration>>,
) -> Upload {
    let (idle, timeout) = (rule.idle_timeout, IoTimeout::after(rule.idle_timeout));
    let (mut piece, mut memory) = (Vec::new(), Vec::new());
    let is_chunked = framing == Body::Chunked;
    if framing == Body::None {
        return Upload::Complete;
    }
    loop {
        piece.clear();
        waiting.set(Some(now()));
        let next = body.next(&mut piece, idle).await;
        waiting.set(None);
        if let Err(error) = next {
            return Upload::Client(error);
        }
        let is_last = piece.is_empty();
        if is_chunked {
            memory.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            memory.extend_from_slice(&piece);
            memory.extend_from_slice(b"\r\n");
        } else {
            std::mem::swap(&mut memory, &mut piece);
        }
        if !memory.is_empty() {
            match wire.write(memory, timeout).await {
                Ok(empty) => memory = empty,
                Err(_) => {
                    body.abandon();
                    return Upload::Stopped;
                }
            }
        }
        if is_last || !is_chunked && body.is_done() {
            return Upload::Complete;
        }
    }
}
