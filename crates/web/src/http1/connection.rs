//! The control stage: one operation per connection, for the connection's whole life.
//!
//! Requests that have arrived are answered in order. Their responses are gathered in one buffer and sent
//! together when no complete request is left, so a pipelining client costs one send per batch.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::overload::Permit;
use phalanx::shutdown::is_draining;
use phalanx::time::now;
use phalanx_http::{Body, BodyParser, Parse, Reply, ResponseBuffer, Scan, Status};
use phalanx_tls::Wire;

use crate::http2;
use crate::log::{AccessRecorder, Flush};
use crate::proxy::{Job, Origin, prepare};
use crate::respond::admit::{RequestContext, admit};
use crate::respond::refusal::{error_page, host_error_page, plain_http_page};
use crate::respond::respond;
use crate::respond::writer::ResponseWriter;
use crate::site::{CurrentSite, Site};
use crate::socket::answered::Answered;
use crate::socket::linger::Linger;
use crate::socket::peer::{Claims, Peer, named, own_address};
use crate::stages::Stages;

/// A client's HTTP/1.1 connection.
pub(crate) struct Connection {
    pub(super) transport: Rc<Wire>,
    pub(super) stages: Stages,
    current: CurrentSite,
    /// Version of the site that serves the current request.
    pub(super) site: Arc<Site>,
    /// Admission permit, held until the response is sent. A connection handles one request at a time, so it
    /// needs only one.
    pub(super) permit: Option<Permit>,
    /// Received bytes; the first `taken` have been processed.
    pub(super) input: Vec<u8>,
    pub(super) taken: usize,
    scan: Scan,
    /// Whether a request has been received. The HTTP/2 preface may only precede the first one (RFC 9113 §3.4).
    has_begun: bool,
    /// Arrival time of the first bytes of an incomplete request.
    pub(super) begun: Option<Duration>,
    pub(super) out: ResponseWriter,
    /// Requests whose responses are in `out`.
    pub(super) answered: Answered,
    /// Buffer for the decoded path, reused between requests.
    pub(super) path: Vec<u8>,
    pub(super) peer: Peer,
    /// The TLS port to which every request is redirected, if any.
    pub(super) https: Option<u16>,
}

/// Next step of the connection.
pub(super) enum Next {
    Request,
    Close,
    /// Continue as HTTP/2: the client sent its preface.
    Http2,
    /// Close after the client has had time to read the response.
    Linger,
}

impl Connection {
    pub(crate) fn new(transport: Wire, stages: Stages, current: CurrentSite, peer: Peer) -> Self {
        let (transport, site) = (Rc::new(transport), current.load());
        let mut out = ResponseWriter::connection(transport.clone(), stages, &site.timeouts);
        out.alt_svc = peer.alt_svc;
        let (input, path) = (Vec::new(), Vec::new());
        Self {
            transport,
            stages,
            current,
            site,
            permit: None,
            input,
            taken: 0,
            scan: Scan::default(),
            has_begun: false,
            begun: None,
            out,
            answered: Answered::default(),
            path,
            peer,
            https: None,
        }
    }

    /// Marks a connection that has received requests on another processor.
    pub(crate) fn resumed(self) -> Self {
        Self { has_begun: true, ..self }
    }

    /// Redirects every request to TLS port `port`.
    pub(crate) fn redirecting_to_https(self, port: u16) -> Self {
        Self { https: Some(port), ..self }
    }

    /// Responds to a plain HTTP request on a TLS port with an error page, then closes.
    pub(crate) async fn reject_plain_http(mut self) {
        if let Ok(Next::Linger) = self.refuse(Status::BadRequest, plain_http_page).await {
            Flush::submit(self.take_records());
            self.linger(Linger::ANSWERED).await;
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
                        return Box::pin(self.linger(Linger::ANSWERED)).await;
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
            has_begun,
            begun,
            out,
            current,
            site,
            stages,
            path,
            permit,
            peer: Peer { admission, recorder, proxy, pools, is_named, .. },
            https,
            answered: waiting,
            transport,
            ..
        } = self;
        if *taken == input.len() {
            return self.receive().await;
        }
        if current.refresh(site) {
            out.pace.set_timeouts(&site.timeouts);
        }
        let (request, length) = match scan.parse(&input[*taken..], &site.limits) {
            Ok(Parse::Complete(request, length)) => (request, length),
            Ok(Parse::Incomplete) => {
                // The rest of the input is the start of a request.
                begun.get_or_insert_with(now);
                return self.receive().await;
            }
            Err(_) if site.h2c && https.is_none() && !*has_begun && is_http2(input) => {
                return Ok(Next::Http2);
            }
            // Wait for the rest of the preface.
            Err(_) if site.h2c && https.is_none() && !*has_begun && is_start_of_http2(input) => {
                *scan = Scan::default();
                begun.get_or_insert_with(now);
                return self.receive().await;
            }
            Err(reject) => return self.refuse(reject.status, error_page).await,
        };
        *has_begun = true;
        let named = named(proxy.as_deref(), &request, site);
        let began = *begun.get_or_insert_with(now);
        if let Some(recorder) = recorder {
            recorder.request(site.logs(&request), &request, named, began);
        }
        out.buffer.begin();
        if site.has_protected {
            let named = named.or(pools.as_ref().and_then(|pools| pools.named));
            out.client = named.or_else(|| own_address(transport.stream())).map(Box::new);
        }
        let recounted = admission.as_ref().filter(|_| named.is_none()).and_then(|admission| {
            let named = pools.as_ref().and_then(|pools| pools.named);
            admission.recounted(site, || named.or_else(|| own_address(transport.stream())))
        });
        let (after, is_tls) = (*taken + length, transport.is_tls());
        let reply =
            Reply { keep_alive: request.keep_alive && !is_draining(), ..Reply::to(&request) };
        if site.has_upstreams
            && let Some(group) = Job::group(site, &request)
        {
            *taken = after;
            let has_body = request.body != Body::None;
            let prepared = prepare(
                (&mut *out, &mut *permit, &mut *path),
                *stages,
                RequestContext {
                    site,
                    admission: admission.as_deref(),
                    named,
                    recounted,
                    https: *https,
                    is_tls,
                    is_named: *is_named,
                },
                group,
                (&request, reply),
                Origin::of(
                    is_tls,
                    Claims::of((proxy.as_deref(), named), pools.as_deref(), &request, site),
                    || admission.as_ref()?.ip_address(transport.stream()),
                ),
            );
            let prepared = prepared.await;
            return Box::pin(self.prepared(prepared, reply, has_body)).await;
        }
        *begun = None;
        waiting.add(began);
        let body = match request.body {
            Body::None => None,
            body => match BodyParser::new(body, &site.limits) {
                Ok(discard) => Some(discard),
                // The body is too large to discard. Send the error instead of a response to the request.
                Err(reject) => {
                    let (host, site) = (site.host(request.host), site.clone());
                    let page = move |out: &mut ResponseBuffer, status, reply| {
                        let fields = host.and_then(|host| site.transport_fields(host, is_tls));
                        host_error_page(out, status, reply, fields);
                    };
                    return Box::pin(self.refuse(reject.status, page)).await;
                }
            },
        };
        let expects = body.is_some() && request.expect_continue;
        let reply = if expects { reply.closing() } else { reply };
        let is_admitted = {
            let context = RequestContext {
                site,
                admission: admission.as_deref(),
                named,
                recounted,
                https: *https,
                is_tls,
                is_named: *is_named,
            };
            admit(&mut out.buffer, &context, permit, &request, reply)
        };
        let answered = if is_admitted {
            respond(out, *stages, site, path, &request, reply).await
        } else {
            out.send_if_full().await
        };
        out.log(recorder.as_deref_mut(), &site.metrics);
        answered?;
        *taken = after;
        if !reply.keep_alive {
            return self.last(body.is_some()).await;
        }
        if out.buffer.is_empty() {
            std::mem::take(waiting).sent(site.metrics.latency());
        }
        match body {
            None => Ok(Next::Request),
            Some(body) => self.discard_body(body).await,
        }
    }

    /// Sends the last response. `has_body` means that part of the request's body may be unread.
    pub(super) async fn last(&mut self, has_body: bool) -> io::Result<Next> {
        self.out.send_last().await?;
        std::mem::take(&mut self.answered).sent(self.site.metrics.latency());
        let is_all = !has_body && self.input.len() == self.taken;
        Ok(if is_all { Next::Close } else { Next::Linger })
    }

    /// Responds with a protocol error; the connection cannot continue.
    pub(super) async fn refuse(
        &mut self,
        status: Status,
        page: impl FnOnce(&mut ResponseBuffer, Status, Reply),
    ) -> io::Result<Next> {
        let input = &self.input[self.taken..];
        if let Some(recorder) = &mut self.peer.recorder {
            let line = input.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
            recorder.record_rejected(&self.site.logs, &[line], self.begun.unwrap_or_else(now));
        }
        page(&mut self.out.buffer, status, Reply::to_refused(input));
        self.out.log(self.peer.recorder.as_deref_mut(), &self.site.metrics);
        self.out.send().await?;
        std::mem::take(&mut self.answered).sent(self.site.metrics.latency());
        Ok(Next::Linger)
    }

    /// Takes the log records of the requests answered so far.
    pub(super) fn take_records(&mut self) -> Option<Flush> {
        self.peer.recorder.as_deref_mut().and_then(AccessRecorder::take)
    }

    /// Continues as an HTTP/2 connection.
    fn http2(&mut self) {
        let (transport, current) = (self.transport.clone(), self.current.clone());
        let (peer, input) = (std::mem::take(&mut self.peer), std::mem::take(&mut self.input));
        http2::connection::dispatch(transport, self.stages, current, peer, input);
    }
}

/// Whether the input of a new connection starts with the HTTP/2 preface.
#[cold]
fn is_http2(input: &[u8]) -> bool {
    input.starts_with(http2::PREFACE)
}

/// Whether the input of a new connection is a part of the HTTP/2 preface.
#[cold]
fn is_start_of_http2(input: &[u8]) -> bool {
    http2::PREFACE.starts_with(input)
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
