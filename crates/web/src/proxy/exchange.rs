//! One request at a server: obtains a connection, sends the request and relays the response, or responds with an error.

use std::cell::RefCell;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::task::Either;
use phalanx::{Call, CallError, select};
use phalanx_http::{Reply, Status};

use crate::metrics::CLIENT_CLOSED;
use crate::proxy::attempt::{Outcome, attempt};
use crate::proxy::body::RequestBody;
use crate::proxy::job::Job;
use crate::proxy::tunnel::{TunnelEnd, tunnel};
use crate::respond::fail_for_server;
use crate::respond::writer::ResponseWriter;
use crate::site::Site;
use crate::upstream::{Failure, Lease, Line, Pools, Search};

/// A request to be forwarded to a server, with everything that its operation needs.
pub(crate) struct Exchange {
    pub(crate) job: Box<Job>,
    pub(crate) site: Arc<Site>,
    pub(crate) pools: Rc<Pools>,
    pub(crate) out: ResponseWriter,
    pub(crate) body: RequestBody,
    pub(crate) reply: Reply,
}

/// Result for the client's connection.
pub(crate) struct Finished {
    pub(crate) out: ResponseWriter,
    pub(crate) body: RequestBody,
    pub(crate) end: io::Result<End>,
}

/// The status to log for a request whose operation has ended with this error. The client gets no response.
pub(crate) fn lost_status(error: &CallError) -> u16 {
    match error {
        CallError::Full { .. } => Status::ServiceUnavailable.code(),
        CallError::Panicked { .. } => Status::InternalServerError.code(),
        _ => CLIENT_CLOSED,
    }
}

/// How the client's connection continues.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum End {
    /// With the next request.
    KeepAlive,
    /// It closes after the response.
    Close,
    /// It was a tunnel, which has closed.
    Tunnel,
}

/// The next step of an exchange.
enum Step {
    End(End),
    /// The server has switched the protocol, and has sent these bytes after its response.
    Tunnel(Lease, Vec<u8>),
}

impl Exchange {
    /// Runs the exchange as an operation of the stage `upstream`. The end of the response may still be in the buffer of
    /// `out`.
    pub(crate) fn start(self) -> Call<Finished> {
        let stage = self.pools.stage();
        stage.call(move |_| self.run())
    }

    async fn run(mut self) -> Finished {
        self.out.set_begun(true);
        let client = self.body.client();
        let end = match self.respond_unless(client.gone()).await {
            Either::Left(Ok(Step::End(end))) => Ok(end),
            Either::Left(Ok(Step::Tunnel(lease, received))) => {
                Ok(self.tunnel(&lease, received).await)
            }
            Either::Left(Err(error)) => Err(error),
            // Dropping the request has closed its connection to the server.
            Either::Right(()) => {
                self.site.upstreams.failure(Failure::ClientClosed);
                Err(io::ErrorKind::ConnectionAborted.into())
            }
        };
        let Self { out, body, .. } = self;
        Finished { out, body, end }
    }

    async fn respond_unless(
        &mut self,
        gone: impl Future<Output = ()>,
    ) -> Either<io::Result<Step>, ()> {
        // Pinned here, so that the future contains each of the two only once.
        select(pin!(self.respond()), pin!(gone)).await
    }

    /// Passes bytes between the client and the server of `lease` until their connections end.
    async fn tunnel(&mut self, lease: &Lease, received: Vec<u8>) -> End {
        // Only requests on HTTP/1.1 connections can propose a tunnel.
        let RequestBody::Connection(client) = &mut self.body else { return End::Close };
        let rest = client.input.split_off(client.taken);
        let client = TunnelEnd { wire: &client.transport, received: rest };
        // Only a server with HTTP/1.1 can switch the protocol.
        let Line::Wire(wire) = &lease.line else { return End::Close };
        let server = TunnelEnd { wire, received };
        let idle = self.job.group.rule.idle_timeout;
        self.out.buffer.count(tunnel(client, server, idle).await);
        End::Tunnel
    }

    async fn respond(&mut self) -> io::Result<Step> {
        let Self { job, site, pools, out, body, reply } = self;
        let counters = &site.upstreams;
        let Some(blocking) = site.blocking() else { return self.fail(Failure::Connect).await };
        let mut search = Search::new(pools, counters, blocking.resolver);
        let mut is_fresh = false;
        let sent = RefCell::default();
        loop {
            let mut lease = match search.connect(&job.group, job.may_repeat(), is_fresh).await {
                Ok(lease) => lease,
                Err(failure) => return self.fail(failure).await,
            };
            counters.request();
            match attempt(job, &lease, body, &sent, (out, site), *reply).await {
                Outcome::Relayed { is_reusable, keep_alive } => {
                    lease.member().health.completed();
                    if is_reusable {
                        lease.give_back(pools);
                    }
                    return Ok(Step::End(if keep_alive { End::KeepAlive } else { End::Close }));
                }
                Outcome::Upgraded { received } => {
                    lease.begin_tunnel();
                    return Ok(Step::Tunnel(lease, received));
                }
                Outcome::Stale if job.may_repeat() && !is_fresh => {
                    counters.retry();
                    is_fresh = true;
                }
                Outcome::Unprocessed
                    if !is_fresh && body.can_resume() && sent.borrow().may_repeat(&job.group) =>
                {
                    counters.retry();
                    is_fresh = true;
                }
                Outcome::Stale | Outcome::Unprocessed => return self.fail(Failure::Closed).await,
                Outcome::Failed(failure) => {
                    search.failed_at(&lease, failure);
                    return self.fail(failure).await;
                }
                Outcome::GivenUp => return self.fail(Failure::Closed).await,
                Outcome::Refused(status) => {
                    let reply = reply.closing();
                    return self.error(status, reply).await;
                }
                Outcome::Broken(failure, error) => {
                    counters.failure(failure.unwrap_or(Failure::ClientClosed));
                    if failure == Some(Failure::Truncated) {
                        search.failed_at(&lease, Failure::Truncated);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Responds with an error.
    async fn fail(&mut self, failure: Failure) -> io::Result<Step> {
        self.site.upstreams.failure(failure);
        let is_done = self.body.is_done();
        let reply = if is_done { self.reply } else { self.reply.closing() };
        let status = match failure {
            Failure::Busy | Failure::Exhausted => Status::ServiceUnavailable,
            Failure::ConnectTimeout | Failure::ResponseTimeout => Status::GatewayTimeout,
            _ => Status::BadGateway,
        };
        self.error(status, reply).await
    }

    /// Responds with an error page.
    async fn error(&mut self, status: Status, reply: Reply) -> io::Result<Step> {
        let host = (&self.site, self.job.host_index);
        // Boxed because it is rare.
        Box::pin(fail_for_server(&mut self.out, host, (status, reply))).await?;
        Ok(Step::End(if reply.keep_alive { End::KeepAlive } else { End::Close }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_without_a_response() {
        let panicked = CallError::Panicked { stage: "upstream", message: "why".into() };
        assert_eq!(lost_status(&panicked), 500);
        assert_eq!(lost_status(&CallError::Full { stage: None, bound: 1 }), 503);
        assert_eq!(lost_status(&CallError::Cancelled), 499);
    }
}
