//! Requests on an HTTP/1.1 connection that other servers answer.

use std::io;

use phalanx_http::Reply;

use crate::http1::connection::{Connection, Next};
use crate::proxy::{ConnectionBody, End, Exchange, Finished, Job, RequestBody};
use crate::respond::writer::ResponseWriter;

impl Connection {
    /// Passes a request, whose body begins at `taken`, to a server. Writer and input are lent to the operation that does
    /// it.
    pub(super) async fn proxied(&mut self, job: Box<Job>, reply: Reply) -> io::Result<Next> {
        // Waiting for a server is no work of this one.
        self.permit = None;
        // Nor must the responses to earlier requests wait for it.
        self.out.send().await?;
        let (transport, stages) = (self.transport.clone(), self.stages);
        let pools = self.peer.pools.as_ref().ok_or(io::ErrorKind::NotConnected)?.pools.clone();
        let own = ResponseWriter::connection(transport.clone(), stages, &self.site.timeouts);
        let input = std::mem::take(&mut self.input);
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
        let Finished { out, body, end } = exchange.start().await.map_err(io::Error::other)?;
        let is_read = body.is_done();
        self.out = out;
        if let RequestBody::Connection(body) = body {
            (self.input, self.taken) = (body.input, body.taken);
        }
        self.out.log(self.peer.recorder.as_deref_mut(), &self.site.metrics);
        match end? {
            End::KeepAlive => Ok(Next::Request),
            End::Close => self.last(!is_read).await,
            End::Tunnel => Ok(Next::Close),
        }
    }
}
