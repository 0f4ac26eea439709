//! One attempt to get a response: the request is sent while the response is received.
//!
//! A server may answer before it has read all of the request, and may not read on until its answer is read. Therefore
//! neither direction waits for the other.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::sleep;
use phalanx::time::{Sleep, now};
use phalanx_http::client::Response;
use phalanx_http::{Body, Reply, Status};
use phalanx_tls::Wire;

use crate::config::Proxy;
use crate::proxy::answer::{form, receive_head, relay_head};
use crate::proxy::body::{BodyError, RequestBody};
use crate::proxy::job::Job;
use crate::proxy::relay::{Broken, SLOW_CLIENT, relay_body};
use crate::respond::writer::ResponseWriter;
use crate::site::Site;
use crate::upstream::{Failure, Lease};

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
    (out, site): (&mut ResponseWriter, &Site),
    reply: Reply,
) -> Outcome {
    let (wire, rule) = (&lease.wire, &job.group.rule);
    let sending = IoTimeout::after(rule.idle_timeout);
    if wire.write(job.head(lease.member()), sending).await.is_err() {
        return if lease.is_reused { Outcome::Stale } else { Outcome::Failed(Failure::Closed) };
    }
    if job.expects && body.invite(sending).await.is_err() {
        return Outcome::Broken(None, io::ErrorKind::BrokenPipe.into());
    }
    let waiting = Cell::new(None);
    let mut upload = pin!(upload(body, wire, (job.body, rule), &waiting));
    let mut uploading = Uploading { upload: upload.as_mut(), result: None, waiting: &waiting };
    let mut input = Vec::new();
    let received = {
        let mut head = pin!(receive_head(wire, &mut input, job));
        uploading.receive(head.as_mut(), rule.response_timeout).await
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
        Received::Client(BodyError::Refused(status)) => return Outcome::Refused(status),
        Received::Client(BodyError::Gone) => {
            return Outcome::Broken(None, io::ErrorKind::UnexpectedEof.into());
        }
    };
    lease.member().health.responded(now());
    // If the body is not read completely, the start of the client's next request cannot be found.
    let reply = if uploading.is_complete() { reply } else { reply.closing() };
    let reply = form(&response, reply);
    let reply = Reply { keep_alive: reply.keep_alive || response.status == 101, ..reply };
    relay_head(out, (site, job), &response, &input, reply);
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

/// How sending the body has ended.
enum Upload {
    Complete,
    /// The server accepts no more of the body. Its response may give the reason.
    Stopped,
    Client(BodyError),
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

/// The body of a request that is being sent.
struct Uploading<'a, F> {
    upload: Pin<&'a mut F>,
    result: Option<Upload>,
    /// Time since which it waits for the client; `None` if it does not.
    waiting: &'a Cell<Option<Duration>>,
}

/// Whichever finished first.
enum Received {
    Head(Result<Response, Failure>),
    Client(BodyError),
}

impl<F: Future<Output = Upload>> Uploading<'_, F> {
    fn poll(&mut self, context: &mut Context<'_>) {
        if self.result.is_none()
            && let Poll::Ready(result) = self.upload.as_mut().poll(context)
        {
            self.result = Some(result);
        }
    }

    fn is_complete(&self) -> bool {
        matches!(self.result, Some(Upload::Complete))
    }

    /// Whether the client has not completed its request.
    fn has_failed(&self) -> bool {
        matches!(self.result, Some(Upload::Client(_)))
    }

    /// Whether the client may be the reason that a server closes its connection without a response: the client has
    /// failed, or the server waits for the rest of its request.
    fn excuses_close(&self) -> bool {
        let waits = |since: Duration| now().saturating_sub(since) >= SLOW_CLIENT;
        self.has_failed() || self.result.is_none() && self.waiting.get().is_some_and(waits)
    }

    /// Sends the body and receives the head of the response concurrently. The time limit for the head begins when the
    /// body is sent.
    async fn receive(
        &mut self,
        mut head: Pin<&mut impl Future<Output = Result<Response, Failure>>>,
        limit: Duration,
    ) -> Received {
        let mut timer: Option<Sleep> = None;
        poll_fn(|context| {
            let was_sending = self.result.is_none();
            self.poll(context);
            if let Poll::Ready(head) = head.as_mut().poll(context) {
                return Poll::Ready(Received::Head(head));
            }
            if let Some(Upload::Client(_)) = self.result {
                let Some(Upload::Client(error)) = self.result.take() else { unreachable!("it is") };
                return Poll::Ready(Received::Client(error));
            }
            if was_sending && self.result.is_some() {
                timer = Some(sleep(limit));
            }
            if let Some(timer) = &mut timer
                && Pin::new(timer).poll(context).is_ready()
            {
                return Poll::Ready(Received::Head(Err(Failure::ResponseTimeout)));
            }
            Poll::Pending
        })
        .await
    }
}
