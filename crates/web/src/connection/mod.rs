//! The control stage: one operation per connection, for the connection's whole life.
//!
//! Requests that have arrived are answered in order. Their responses are gathered in one buffer and sent
//! together when no complete request is left, so a pipelining client costs one send per batch.

pub(crate) mod accept;
mod answer;
pub(crate) mod buffers;
pub(crate) mod clock;
pub(crate) mod exchange;
mod fail;
mod fallback;
mod file;
pub(crate) mod gauge_guard;
mod health;
mod negotiate;
mod network;
pub(crate) mod outgoing;
pub(crate) mod pace;
mod password;
pub(crate) mod peer;
mod refusal;
pub(crate) mod respond;
pub(crate) mod response_stats;
pub(crate) mod transport;

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::overload::{Admission, Permit};
use phalanx::shutdown::is_draining;
use phalanx::time::now;
use phalanx_http::{Body, Discard, Parse, Reply, Scan, Status};

use crate::connection::exchange::{RequestContext, admit, log_response};
use crate::connection::network::{Buffers, Received, send_and_receive};
use crate::connection::outgoing::{Outgoing, To};
use crate::connection::pace::Pace;
use crate::connection::peer::Peer;
use crate::connection::refusal::page;
use crate::connection::respond::respond;
use crate::connection::response_stats::ResponseStats;
use crate::connection::transport::Transport;
use crate::http2;
use crate::log::{AccessRecorder, Flush};
use crate::site::{CurrentSite, Site};
use crate::stages::Stages;

/// Time for which the server keeps reading after an error response, so that the client can read the response
/// before the connection is reset (RFC 9112 §9.6).
const LINGER: Duration = Duration::from_secs(1);
/// Bytes that the server reads during [`LINGER`].
const LINGER_BYTES: usize = 256 * 1024;

/// A client's HTTP/1.1 connection.
pub(crate) struct Connection {
    transport: Rc<Transport>,
    stages: Stages,
    current: CurrentSite,
    /// Version of the site that serves the current request.
    site: Arc<Site>,
    /// Overload control; `None` admits every request.
    entry: Option<Admission>,
    /// Admission permit, held until the response is sent. A connection handles one request at a time, so it
    /// needs only one.
    permit: Option<Permit>,
    /// Received bytes; the first `taken` have been processed.
    input: Vec<u8>,
    taken: usize,
    scan: Scan,
    /// Arrival time of the first bytes of an incomplete request.
    begun: Option<Duration>,
    out: Outgoing,
    /// Buffer for the decoded path, reused between requests.
    path: Vec<u8>,
    peer: Peer,
    /// If set, every request is redirected to this TLS port.
    https: Option<u16>,
}

/// Next step of the connection.
enum Next {
    Request,
    Close,
    /// Continue as HTTP/2: the client sent its preface.
    Http2,
    /// Close after the client had time to read the response.
    Linger,
}

impl Connection {
    pub(crate) fn new(
        transport: Transport,
        stages: Stages,
        current: CurrentSite,
        entry: Option<Admission>,
        peer: Peer,
    ) -> Self {
        let (transport, site) = (Rc::new(transport), current.load());
        let out = Outgoing {
            to: To::Connection(transport.clone()),
            stages,
            pace: Pace::new(&site.timeouts),
            bytes: Vec::new(),
            stats: ResponseStats::default(),
            user: None,
        };
        let (input, path) = (Vec::new(), Vec::new());
        Self {
            transport,
            stages,
            current,
            site,
            entry,
            permit: None,
            input,
            taken: 0,
            scan: Scan::default(),
            begun: None,
            out,
            path,
            peer,
            https: None,
        }
    }

    /// Redirects every request to TLS port `port`.
    pub(crate) fn redirecting_to_https(self, port: u16) -> Self {
        Self { https: Some(port), ..self }
    }

    /// Responds to a plain HTTP request on a TLS port with an error page, then closes.
    pub(crate) async fn reject_plain_http(mut self) {
        if let Ok(Next::Linger) = self.refuse(Status::BadRequest, refusal::plain_http_page).await {
            Flush::submit(self.take_records());
            self.linger().await;
        }
    }

    /// Serves until the connection closes.
    #[expect(clippy::manual_async_fn, reason = "its future would contain the connection twice")]
    pub(crate) fn serve(mut self) -> impl Future<Output = ()> {
        async move {
            loop {
                match self.turn().await {
                    Ok(Next::Request) => (),
                    // Boxed: this path is rare, and its future would enlarge every connection.
                    Ok(Next::Linger) => {
                        Flush::submit(self.take_records());
                        return Box::pin(self.linger()).await;
                    }
                    Ok(Next::Http2) => return self.http2(),
                    Ok(Next::Close) => {
                        Flush::submit(self.take_records());
                        if self.transport.is_tls() {
                            let timeout = self.out.pace.timeout(0);
                            Box::pin(self.transport.finish(timeout)).await;
                        }
                        return;
                    }
                    Err(_) => {
                        Flush::submit(self.take_records());
                        return;
                    }
                }
            }
        }
    }

    /// Handles one request, or waits for more input.
    async fn turn(&mut self) -> io::Result<Next> {
        let Self {
            input,
            taken,
            scan,
            begun,
            out,
            current,
            site,
            stages,
            path,
            entry,
            permit,
            peer: Peer { open, recorder, .. },
            https,
            ..
        } = self;
        if *taken == input.len() {
            return self.receive().await;
        }
        current.refresh(site);
        let (request, length) = match scan.parse(&input[*taken..], &site.limits) {
            Ok(Parse::Complete(request, length)) => (request, length),
            Ok(Parse::Incomplete) => {
                // The rest of the input is the start of a request.
                begun.get_or_insert_with(now);
                return self.receive().await;
            }
            Err(_) if site.h2c && https.is_none() && is_http2(&input[..], *taken) => {
                return Ok(Next::Http2);
            }
            Err(reject) => return self.refuse(reject.status, page).await,
        };
        if let Some(recorder) = recorder {
            recorder.request(&request, begun.unwrap_or_else(now));
            out.stats.begin(&out.bytes);
        }
        *begun = None;
        let after = *taken + length;
        let reply =
            Reply { keep_alive: request.keep_alive && !is_draining(), ..Reply::to(&request) };
        let body = match request.body {
            Body::None => None,
            body => match Discard::new(body, &site.limits) {
                Ok(discard) => Some(discard),
                // The body is too large to discard. Report it now: a response to the request may not precede
                // it.
                Err(reject) => return self.refuse(reject.status, page).await,
            },
        };
        let expects = body.is_some() && request.expect_continue;
        let reply = if expects { reply.closing() } else { reply };
        let context = RequestContext { site, entry, open: open.as_ref(), https: *https };
        let answered = if admit(&mut out.bytes, &context, permit, &request, reply) {
            respond(out, *stages, site, path, &request, reply).await
        } else {
            out.send_if_full().await
        };
        log_response(out, recorder);
        answered?;
        *taken = after;
        if !reply.keep_alive {
            out.send().await?;
            return Ok(if body.is_none() && self.input.len() == after {
                Next::Close
            } else {
                Next::Linger
            });
        }
        match body {
            None => Ok(Next::Request),
            Some(body) => self.discard_body(body).await,
        }
    }

    /// Responds with a protocol error; the connection cannot continue.
    async fn refuse(
        &mut self,
        status: Status,
        page: fn(&mut Vec<u8>, Status, Reply),
    ) -> io::Result<Next> {
        let Self { out, peer, .. } = self;
        if let Some(recorder) = &mut peer.recorder
            && !out.stats.is_active()
        {
            recorder.rejected(&self.input[self.taken..], self.begun.unwrap_or_else(now));
            out.stats.begin(&out.bytes);
        }
        let reply = Reply::to_refused(&self.input[self.taken..]);
        page(&mut out.bytes, status, reply);
        log_response(out, &mut peer.recorder);
        out.send().await?;
        Ok(Next::Linger)
    }

    /// Takes the log records of the requests answered so far.
    fn take_records(&mut self) -> Option<Flush> {
        self.peer.recorder.as_mut().and_then(AccessRecorder::take)
    }

    /// Sends the gathered responses, then waits for input.
    async fn receive(&mut self) -> io::Result<Next> {
        self.input.drain(..self.taken);
        self.taken = 0;
        buffers::shrink_idle(&mut self.input);
        buffers::shrink_idle(&mut self.path);
        let timeouts = &self.site.timeouts;
        // One time limit covers all bytes of a request.
        let timeout = match self.begun {
            None => IoTimeout::after(timeouts.idle).until_shutdown(),
            Some(begun) => IoTimeout::after(timeouts.request.saturating_sub(now() - begun)),
        };
        match self.receive_more(timeout).await {
            Received::Bytes(1..) => {
                self.begun.get_or_insert_with(now);
                Ok(Next::Request)
            }
            Received::TimedOut if self.begun.is_some() => {
                self.refuse(Status::RequestTimeout, page).await
            }
            _ => Ok(Next::Close),
        }
    }

    /// Sends the gathered responses, then appends received bytes to the input.
    async fn receive_more(&mut self, timeout: IoTimeout) -> Received {
        let out = std::mem::take(&mut self.out.bytes);
        let (input, permit) = (std::mem::take(&mut self.input), self.permit.take());
        let sending = self.out.pace.timeout(out.len() as u64);
        self.out.pace.rest();
        let buffers = Buffers { out, input, permit, records: self.take_records() };
        let (buffers, received) =
            send_and_receive(self.stages, &self.transport, buffers, sending, timeout).await;
        self.input = buffers.input;
        if matches!(received, Received::Bytes(1..)) {
            self.out.bytes = buffers::get();
        }
        received
    }

    /// Reads and discards the body of a request that is already answered. A malformed body gets an error
    /// response, which tells the client that no later request will be read.
    async fn discard_body(&mut self, mut body: Discard) -> io::Result<Next> {
        let begun = now();
        loop {
            match body.feed(&self.input[self.taken..]) {
                Ok(bytes) => self.taken += bytes,
                Err(reject) => {
                    // The rest is not a request line and is not logged as one.
                    self.taken = self.input.len();
                    return self.refuse(reject.status, page).await;
                }
            }
            if body.is_done() {
                return Ok(Next::Request);
            }
            self.input.clear();
            self.taken = 0;
            let limit = self.site.timeouts.body.saturating_sub(now() - begun);
            if !matches!(self.receive_more(IoTimeout::after(limit)).await, Received::Bytes(1..)) {
                self.out.send().await?;
                return Ok(Next::Linger);
            }
        }
    }

    /// Continues as an HTTP/2 connection.
    fn http2(&mut self) {
        let (transport, current, entry) =
            (self.transport.clone(), self.current.clone(), self.entry.clone());
        let (peer, input) = (std::mem::take(&mut self.peer), std::mem::take(&mut self.input));
        http2::connection::dispatch(transport, self.stages, current, entry, peer, input);
    }

    /// Shuts down the sending side, then reads and discards for a moment.
    async fn linger(&mut self) {
        self.transport.finish(self.out.pace.timeout(0)).await;
        let (begun, mut bytes) = (now(), 0);
        while now() - begun < LINGER && bytes < LINGER_BYTES {
            self.input.clear();
            let timeout = IoTimeout::after(LINGER.saturating_sub(now() - begun)).until_shutdown();
            let Received::Bytes(more @ 1..) = self.receive_more(timeout).await else { return };
            bytes += more;
        }
    }
}

/// Whether the connection starts with the HTTP/2 preface.
#[cold]
fn is_http2(input: &[u8], taken: usize) -> bool {
    taken == 0 && input.starts_with(http2::PREFACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<T, F: Future>(_: impl FnOnce(T) -> F) -> usize {
        size_of::<F>()
    }

    /// A connection's future is always as large as its largest state, so rare and short states are boxed.
    #[test]
    fn a_connection_fits_its_slot() {
        let bytes = size(Connection::serve) + 2 * size_of::<usize>();
        assert!(bytes <= 2048, "{bytes} bytes: the slab's next class is 4096");
    }
}
