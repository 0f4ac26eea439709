//! The body of a request, as it arrives from the client.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::time::{now, timeout};
use phalanx_http::{Body, BodyParser, Limits, Reject, Status};
use phalanx_tls::Wire;

use crate::proxy::client::Client;
use crate::proxy::job::Job;
use crate::socket::network::is_time_limit;

/// The body of a request.
pub(crate) enum RequestBody {
    /// On an HTTP/1.1 connection.
    Connection(ConnectionBody),
    /// On an HTTP/2 or HTTP/3 stream.
    Stream(StreamBody),
}

/// Why a body cannot be read.
pub(super) enum BodyError {
    /// The client gets this response.
    Refused(Status),
    /// The client has disconnected.
    Gone,
}

/// A body on an HTTP/1.1 connection.
pub(crate) struct ConnectionBody {
    pub(crate) transport: Rc<Wire>,
    /// Received bytes, of which the first `taken` have been processed.
    pub(crate) input: Vec<u8>,
    pub(crate) taken: usize,
    parser: BodyParser,
    arrival: Arrival,
}

impl ConnectionBody {
    /// The body of `job`, which begins in `input` at `taken`.
    ///
    /// # Errors
    /// If the declared length is larger than the limit.
    pub(crate) fn new(
        transport: Rc<Wire>,
        input: Vec<u8>,
        taken: usize,
        job: &Job,
        limits: &Limits,
    ) -> Result<Self, Reject> {
        let limits = Limits { body: job.group.rule.max_body, ..*limits };
        let parser = BodyParser::new(job.body, &limits)?;
        Ok(Self { transport, input, taken, parser, arrival: Arrival::new(job) })
    }

    async fn next(&mut self, out: &mut Vec<u8>, idle: Duration) -> Result<(), BodyError> {
        loop {
            let copied = self.parser.copy(&self.input[self.taken..], out);
            self.taken += copied.map_err(|reject| BodyError::Refused(reject.status))?;
            if !out.is_empty() || self.parser.is_done() {
                return Ok(());
            }
            self.input.clear();
            self.taken = 0;
            let (begun, limit) = (now(), self.arrival.limit(idle)?);
            let read = self.transport.read(&mut self.input, IoTimeout::after(limit)).await;
            self.arrival.waited(begun, self.input.len());
            match read {
                Ok(1..) => (),
                Err(error) if is_time_limit(&error) => {
                    return Err(BodyError::Refused(Status::RequestTimeout));
                }
                _ => return Err(BodyError::Gone),
            }
        }
    }
}

/// The content of a request on a stream.
pub(crate) trait StreamContent {
    /// Waits for content without taking any, so that the client's window stays closed until the content is taken.
    /// Returns false if the request ends without content.
    ///
    /// # Errors
    /// Like [`poll_content`](Self::poll_content).
    fn poll_arrival(&self, context: &mut Context<'_>) -> Poll<Result<bool, StreamClosed>>;

    /// Waits for content and appends it to `out`. Returns whether more may follow. Appends nothing only at the end.
    ///
    /// # Errors
    /// If the client has reset the stream, or the request is malformed.
    fn poll_content(
        &self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<bool, StreamClosed>>;

    /// Waits until the client has reset the stream, or the connection has ended.
    fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()>;

    /// Discards the rest.
    fn discard(&self);

    /// Sends 100 (Continue).
    ///
    /// # Errors
    /// If the stream has ended.
    fn invite(&self) -> io::Result<()>;
}

/// The client has reset the stream, or its request is malformed.
pub(crate) struct StreamClosed;

/// A body on an HTTP/2 or HTTP/3 stream.
pub(crate) struct StreamBody {
    content: Rc<dyn StreamContent>,
    is_done: bool,
    max_length: u64,
    arrival: Arrival,
}

impl StreamBody {
    /// The body of `job`.
    pub(crate) fn new(content: Rc<dyn StreamContent>, job: &Job) -> Self {
        let (is_done, max_length) = (job.body == Body::None, job.group.rule.max_body);
        Self { content, is_done, max_length, arrival: Arrival::new(job) }
    }

    async fn next(&mut self, out: &mut Vec<u8>, idle: Duration) -> Result<(), BodyError> {
        while out.is_empty() && !self.is_done {
            let (begun, limit) = (now(), self.arrival.limit(idle)?);
            let piece = poll_fn(|context| self.content.poll_content(context, out));
            let polled = timeout(limit, piece).await;
            self.arrival.waited(begun, out.len());
            match polled {
                Ok(Ok(more)) => self.is_done = !more,
                // The client has reset the stream, or the content does not have the declared length.
                Ok(Err(StreamClosed)) => return Err(BodyError::Gone),
                Err(_) => return Err(BodyError::Refused(Status::RequestTimeout)),
            }
        }
        match self.arrival.received > self.max_length {
            true => Err(BodyError::Refused(Status::ContentTooLarge)),
            false => Ok(()),
        }
    }
}

/// How a body arrives.
struct Arrival {
    /// Minimum average rate at which the client must send the body, in bytes per second; zero for none.
    min_rate: u64,
    /// Bytes.
    received: u64,
    /// Time spent waiting for them.
    waited: Duration,
}

impl Arrival {
    fn new(job: &Job) -> Self {
        Self { min_rate: job.group.rule.min_body_rate, received: 0, waited: Duration::ZERO }
    }

    /// Time for the next bytes.
    ///
    /// # Errors
    /// If the client is too slow.
    fn limit(&self, idle: Duration) -> Result<Duration, BodyError> {
        let limit = self.allowance(idle);
        if limit.is_zero() { Err(BodyError::Refused(Status::RequestTimeout)) } else { Ok(limit) }
    }

    /// Counts a wait since `begun`, and the bytes that arrived.
    fn waited(&mut self, begun: Duration, bytes: usize) {
        self.waited += now().saturating_sub(begun);
        self.received += bytes as u64;
    }

    /// Time for the next bytes. With a minimum rate, a client cannot hold a server's slot by sending a byte from time
    /// to time.
    fn allowance(&self, idle: Duration) -> Duration {
        if self.min_rate == 0 {
            return idle;
        }
        let due = Duration::from_millis(self.received.saturating_mul(1000) / self.min_rate);
        idle.min((idle + due).saturating_sub(self.waited))
    }
}

impl RequestBody {
    /// Whether all of the body was read.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Connection(body) => body.parser.is_done(),
            Self::Stream(body) => body.is_done,
        }
    }

    /// Whether reading can continue after a call of [`next`](Self::next) was dropped. On a connection, bytes may be lost.
    pub(super) fn can_resume(&self) -> bool {
        matches!(self, Self::Stream(_)) || self.is_done()
    }

    /// The client that sends it.
    pub(super) fn client(&self) -> Client {
        match self {
            Self::Connection(body) => Client::Connection(body.transport.clone()),
            Self::Stream(body) => Client::Stream(body.content.clone()),
        }
    }

    /// Appends the next piece of the content to the empty buffer `out`, which stays empty at the end of the content. A
    /// client may pause for the `idle` time, and must not fall behind the minimum rate by more than that.
    pub(super) async fn next(
        &mut self,
        out: &mut Vec<u8>,
        idle: Duration,
    ) -> Result<(), BodyError> {
        match self {
            Self::Connection(body) => body.next(out, idle).await,
            Self::Stream(body) => body.next(out, idle).await,
        }
    }

    /// Discards the rest of a stream, so that its memory is available to the bodies of other streams.
    pub(super) fn abandon(&self) {
        if let Self::Stream(body) = self {
            body.content.discard();
        }
    }

    /// Sends 100 (Continue), unless the client has begun to send.
    pub(super) async fn invite(&mut self, timeout: IoTimeout) -> io::Result<()> {
        match self {
            Self::Connection(body) if body.taken == body.input.len() && !body.parser.is_done() => {
                body.transport.write(phalanx_http::CONTINUE.to_vec(), timeout).await.map(drop)
            }
            Self::Stream(body) if !body.is_done => body.content.invite(),
            Self::Connection(_) | Self::Stream(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_rate_is_an_average() {
        let seconds = Duration::from_secs;
        let allowed_at = |min_rate, received, waited| {
            Arrival { min_rate, received, waited: seconds(waited) }.allowance(seconds(60))
        };
        let allowed = |received, waited| allowed_at(500, received, waited);
        assert_eq!(
            (allowed(0, 0), allowed(0, 20), allowed(0, 60)),
            (seconds(60), seconds(40), seconds(0))
        );
        assert_eq!(allowed(10 * 500, 50), seconds(20));
        assert_eq!(allowed(1000 * 500, 500), seconds(60), "at most the idle time");
        assert_eq!(allowed(u64::MAX, 500), seconds(60));
        assert_eq!(allowed_at(1000, 10 * 1000, 50), seconds(20));
        assert_eq!(allowed_at(0, 0, 500), seconds(60), "no rate");
    }
}
