//! Requests on an HTTP/1.1 connection that are forwarded to other servers.

use std::io;
use std::time::Duration;

use phalanx::CallError;
use phalanx::time::now;
use phalanx_http::{Reply, Status};

use crate::http1::connection::{Connection, Next};
use crate::proxy::{
    ConnectionBody, End, Exchange, Finished, Job, Prepared, RequestBody, lost_status,
};
use crate::respond::refusal::refuse;
use crate::respond::writer::ResponseWriter;
use crate::upstream::Failure;

impl Connection {
    /// Continues after the first steps of a request, which began to arrive at `begun`.
    pub(super) async fn prepared(
        &mut self,
        prepared: io::Result<Prepared>,
        reply: Reply,
        has_body: bool,
    ) -> io::Result<Next> {
        let began = self.begun.take().unwrap_or_else(now);
        if let Ok(Prepared::Job(job)) = prepared {
            return self.proxied(job, reply, began).await;
        }
        self.answered.add(began);
        self.out.log(self.peer.recorder.as_deref_mut(), &self.site.metrics);
        match prepared? {
            Prepared::Last => self.last(has_body).await,
            _ => Ok(Next::Request),
        }
    }

    /// Forwards a request, whose body begins at `taken`, to a server. The operation that does this borrows the writer
    /// and the input.
    async fn proxied(&mut self, job: Box<Job>, reply: Reply, began: Duration) -> io::Result<Next> {
        // While it waits for the server, the request causes no load here, so it does not keep its permit.
        self.permit = None;
        // Responses to earlier requests must not wait for the server.
        if let Err(error) = self.out.send().await {
            self.out.log(self.peer.recorder.as_deref_mut(), &self.site.metrics);
            return Err(error);
        }
        std::mem::take(&mut self.answered).sent(self.site.metrics.latency());
        self.answered.add(began);
        let (transport, stages) = (self.transport.clone(), self.stages);
        let pools = self.peer.pools.as_ref().ok_or(io::ErrorKind::NotConnected)?.pools.clone();
        let own = ResponseWriter::connection(transport.clone(), stages, &self.site.timeouts);
        let (input, host) = (std::mem::take(&mut self.input), job.host_index);
        let body = ConnectionBody::new(transport, input, self.taken, &job, &self.site.limits)
            .map_err(io::Error::other)?;
        let exchange = Exchange {
            job,
            site: self.site.clone(),
            pools,
            out: std::mem::replace(&mut self.out, own),
            body: RequestBody::Connection(body),
            reply,
        };
        let Finished { out, body, end } = match exchange.start().await {
            Ok(finished) => finished,
            // The operation limit is reached. The exchange has not begun, but the input that was moved to it is lost.
            Err(CallError::Full { .. }) => {
                self.taken = 0;
                self.out.buffer.begin();
                let is_tls = self.out.is_tls();
                let fields = host.and_then(|host| self.site.transport_fields(host, is_tls));
                let status = Status::ServiceUnavailable;
                refuse(&mut self.out.buffer, status, reply.closing(), fields);
                self.site.upstreams.failure(Failure::Exhausted);
                self.out.log(self.peer.recorder.as_deref_mut(), &self.site.metrics);
                return self.last(true).await;
            }
            Err(error) => {
                let (recorder, status) = (self.peer.recorder.as_deref_mut(), lost_status(&error));
                self.out.log_as(status, recorder, &self.site.metrics);
                return Err(io::Error::other(error));
            }
        };
        let is_read = body.is_done();
        self.out = out;
        if let RequestBody::Connection(body) = body {
            (self.input, self.taken) = (body.input, body.taken);
        }
        self.out.log(self.peer.recorder.as_deref_mut(), &self.site.metrics);
        match end? {
            End::KeepAlive => Ok(Next::Request),
            // A client that expects a persistent connection may already be sending its next request.
            End::Close => self.last(!is_read || reply.keep_alive).await,
            End::Tunnel => Ok(Next::Close),
        }
    }
}
