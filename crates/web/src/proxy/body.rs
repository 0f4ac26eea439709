//! The body of a request, as it arrives from the client.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::time::now;
use phalanx_http::{Discard, Limits, Reject, Status};
use phalanx_tls::Wire;

use crate::proxy::job::Job;

/// The least rate at which a client sends a body, on average, in bytes per second.
const MIN_RATE: u64 = 500;

/// The body of a request.
pub(crate) enum RequestBody {
    None,
    /// On an HTTP/1.1 connection.
    Connection(ConnectionBody),
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
    /// Received bytes; those before `taken` were processed.
    pub(crate) input: Vec<u8>,
    pub(crate) taken: usize,
    parser: Discard,
    /// Received bytes, and the time spent waiting for them.
    received: u64,
    waited: Duration,
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
        let parser = Discard::new(job.body, &limits)?;
        Ok(Self { transport, input, taken, parser, received: 0, waited: Duration::ZERO })
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
            let (begun, limit) = (now(), allowance(self.received, self.waited, idle));
            if limit.is_zero() {
                return Err(BodyError::Refused(Status::RequestTimeout));
            }
            let read = self.transport.read(&mut self.input, IoTimeout::after(limit)).await;
            self.waited += now().saturating_sub(begun);
            match read {
                Ok(count @ 1..) => self.received += count as u64,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Err(BodyError::Refused(Status::RequestTimeout));
                }
                _ => return Err(BodyError::Gone),
            }
        }
    }
}

/// Time for the next bytes of a body of which `received` bytes have arrived after waits of `waited` in total. Otherwise
/// a client could hold a server's slot by sending a byte from time to time.
fn allowance(received: u64, waited: Duration, idle: Duration) -> Duration {
    let due = Duration::from_millis(received.saturating_mul(1000) / MIN_RATE);
    idle.min((idle + due).saturating_sub(waited))
}

impl RequestBody {
    /// Whether all of the body was read.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::None => true,
            Self::Connection(body) => body.parser.is_done(),
        }
    }

    /// Appends the next piece of the content to `out`, which is empty. It stays empty at the end. A client may pause for
    /// the `idle` time, and must not fall behind [`MIN_RATE`] by more than that.
    pub(super) async fn next(
        &mut self,
        out: &mut Vec<u8>,
        idle: Duration,
    ) -> Result<(), BodyError> {
        match self {
            Self::None => Ok(()),
            Self::Connection(body) => body.next(out, idle).await,
        }
    }

    /// Sends 100 (Continue), unless the client has begun to send.
    pub(super) async fn invite(&mut self, timeout: IoTimeout) -> io::Result<()> {
        match self {
            Self::Connection(body) if body.taken == body.input.len() && !body.parser.is_done() => {
                body.transport.write(phalanx_http::CONTINUE.to_vec(), timeout).await.map(drop)
            }
            Self::Connection(_) | Self::None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_rate_is_an_average() {
        let seconds = Duration::from_secs;
        let allowed = |received, waited| allowance(received, seconds(waited), seconds(60));
        assert_eq!(
            (allowed(0, 0), allowed(0, 20), allowed(0, 60)),
            (seconds(60), seconds(40), seconds(0))
        );
        assert_eq!(allowed(10 * MIN_RATE, 50), seconds(20));
        assert_eq!(allowed(1000 * MIN_RATE, 500), seconds(60), "at most the idle time");
        assert_eq!(allowed(u64::MAX, 500), seconds(60));
    }
}
