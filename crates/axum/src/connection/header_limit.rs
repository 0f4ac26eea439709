//! The time limit on a connection that has no request, and the end of a connection when the program drains.
//!
//! hyper's own limit begins with the bytes that tell HTTP/1.1 from HTTP/2, and does not concern HTTP/2. This one is the
//! same for every connection. A request changes no timer.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use phalanx::time::{Deadline, now};

use crate::connection::progress::Progress;

/// The time between the end of the limit, or the drain, and the end of the connection, if it is not used meanwhile. A
/// client over HTTP/2 learns in it that the server serves no more requests.
const GRACE_PERIOD: Duration = Duration::from_secs(1);

/// The time limit of one connection.
pub(crate) struct HeaderLimit {
    limit: Duration,
    /// The start of the connection, or its last use.
    since: Duration,
    /// The time from then to the end.
    remaining: Duration,
    /// None without a limit.
    timer: Option<Deadline>,
    is_over: bool,
    drains: bool,
    /// hyper sends next that the connection ends.
    is_closing: bool,
}

/// How a connection ends whose limit has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// After its current requests.
    Graceful,
    /// Now: it has not ended gracefully in time.
    Close,
}

impl HeaderLimit {
    /// The limit of a connection that begins now.
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        let (since, is_over, drains, is_closing) = (now(), false, false, false);
        let timer = limit.map(|limit| Deadline::new(since.saturating_add(limit)));
        let limit = limit.unwrap_or(Duration::MAX);
        Self { limit, since, remaining: limit, timer, is_over, drains, is_closing }
    }

    /// From now on, hyper ends the connection after its current requests. This limits the time in which it waits for the
    /// client, which may not answer, and for WebSockets over HTTP/2, which the drain closes.
    pub(crate) fn drain(&mut self) {
        (self.since, self.limit, self.remaining) = (now(), GRACE_PERIOD, GRACE_PERIOD);
        self.timer.get_or_insert_with(|| Deadline::new(now() + GRACE_PERIOD));
        (self.is_over, self.drains) = (true, true);
    }

    /// Ready when the limit has passed, and once more if the connection has not ended then.
    pub(crate) fn poll(&mut self, progress: &Progress, context: &mut Context<'_>) -> Poll<End> {
        let Some(timer) = &mut self.timer else { return Poll::Pending };
        let is_used = progress.take_use() || progress.has_request() || progress.is_sending();
        // In the drain, the messages of a WebSocket do not count.
        let is_used = match self.drains && progress.has_tunnel() {
            true => progress.has_request_that_ends(),
            false => is_used,
        };
        // The message that tells a client over HTTP/2 of the end does not count. hyper has sent it since the last call.
        if !std::mem::take(&mut self.is_closing) && is_used {
            // Also after it, a response has the whole time.
            (self.since, self.remaining) = (now(), self.limit);
        }
        ready!(timer.poll(self.since.saturating_add(self.remaining), context));
        if self.is_over {
            return Poll::Ready(End::Close);
        }
        (self.is_over, self.is_closing) = (true, true);
        (self.since, self.remaining) = (now(), GRACE_PERIOD);
        Poll::Ready(End::Graceful)
    }
}
