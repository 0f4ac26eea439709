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

/// The time limits of a connection without requests.
pub(super) struct Lifetime {
    /// The last time at which a request was in progress or a response made progress.
    active: Duration,
    /// Requests in progress and unacknowledged responses at the previous turn.
    responses: usize,
    timer: Deadline,
}

impl Lifetime {
    pub(super) fn new(timeouts: &Timeouts) -> Self {
        let timer = Deadline::new(now() + timeouts.handshake);
        Self { active: now(), responses: 0, timer }
    }

    /// Restarts the time limit: the handshake is complete, a request has begun, or GOAWAY was sent.
    pub(super) fn restart(&mut self) {
        self.active = now();
    }

    /// Waits until a connection with `open` requests has reached its limit. A response counts as sent when the client has
    /// acknowledged it. The client has as much time for that as for receiving it over other protocols.
    pub(super) fn poll_end(
        &mut self,
        phase: Phase,
        (open, unacknowledged): (usize, Unacknowledged),
        timeouts: &Timeouts,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let responses = open + unacknowledged.streams;
        if open > 0 || responses < self.responses {
            self.restart();
        }
        self.responses = responses;
        let limit = match phase {
            _ if open > 0 => return Poll::Pending,
            Phase::Handshake => timeouts.handshake,
            _ if unacknowledged.streams > 0 => {
                Pace::new(timeouts).timeout(unacknowledged.bytes).duration()
            }
            Phase::Open => timeouts.idle,
            Phase::Leaving => GOAWAY_TIMEOUT,
        };
        self.timer.poll(self.active + limit, context)
    }
}
