//! The time limits of a connection without requests.

use std::task::{Context, Poll};
use std::time::Duration;

use phalanx::time::{Deadline, now};
use phalanx_quic::Unacknowledged;

use crate::config::Timeouts;
use crate::respond::pace::Pace;

/// Time for requests that the client sends before it receives GOAWAY, and for the client to close the connection.
const GOAWAY_TIMEOUT: Duration = Duration::from_secs(1);

/// The state of a connection, which selects its limit.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Phase {
    Handshake,
    Open,
    /// The server has sent GOAWAY.
    Leaving,
}

/// The streams of requests, as far as they concern the time limits.
#[derive(Clone, Copy)]
pub(super) struct Requests {
    /// Requests whose heads have arrived and that are in progress.
    pub(super) begun: usize,
    /// Streams whose heads have not arrived.
    pub(super) headless: usize,
    /// Heads that have arrived since the connection began.
    pub(super) heads: u64,
}

/// The time limits of a connection without requests.
pub(super) struct Lifetime {
    /// The last time at which a request was in progress or a response made progress.
    active: Duration,
    /// At the previous turn.
    begun: usize,
    heads: u64,
    /// Unacknowledged responses, and rejections, at the previous turn.
    responses: usize,
    /// Responses whose acknowledgements restart the time limit: at most one for each head, so that rejected streams do
    /// not keep a connection open.
    restarts: u64,
    timer: Deadline,
}

impl Lifetime {
    pub(super) fn new(timeouts: &Timeouts) -> Self {
        let timer = Deadline::new(now() + timeouts.handshake);
        let (begun, heads, responses, restarts) = (0, 0, 0, 0);
        Self { active: now(), begun, heads, responses, restarts, timer }
    }

    /// Restarts the time limit: the handshake is complete, or GOAWAY was sent.
    pub(super) fn restart(&mut self) {
        self.active = now();
    }

    /// Waits until a connection without requests in progress has reached its limit. A stream counts as a request once
    /// its head has arrived. A response counts as sent when the client has acknowledged it. The client has as much time
    /// for that as for receiving it over other protocols.
    pub(super) fn poll_end(
        &mut self,
        phase: Phase,
        (requests, unacknowledged): (Requests, Unacknowledged),
        timeouts: &Timeouts,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let Requests { begun, headless, heads } = requests;
        // Each stream has a sending side.
        let responses = unacknowledged.streams.saturating_sub(headless);
        let acknowledged = self.responses.saturating_sub(responses) as u64;
        if begun > 0 || begun < self.begun || heads > self.heads {
            self.restart();
        } else if acknowledged > 0 && self.restarts > 0 {
            self.restart();
            self.restarts = self.restarts.saturating_sub(acknowledged);
        }
        self.restarts = if responses == 0 { 0 } else { self.restarts + (heads - self.heads) };
        (self.begun, self.heads, self.responses) = (begun, heads, responses);
        let limit = match phase {
            _ if begun > 0 => return Poll::Pending,
            Phase::Handshake => timeouts.handshake,
            _ if responses > 0 => Pace::new(timeouts).timeout(unacknowledged.bytes).duration(),
            // A head that has begun to arrive is awaited.
            Phase::Open if headless > 0 => timeouts.idle + timeouts.request,
            Phase::Open => timeouts.idle,
            Phase::Leaving if headless > 0 => timeouts.request.max(GOAWAY_TIMEOUT),
            Phase::Leaving => GOAWAY_TIMEOUT,
        };
        self.timer.poll(self.active + limit, context)
    }
}
