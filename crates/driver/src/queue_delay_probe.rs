//! Measurement of the time for which completions wait in the kernel before the driver reaps them.
//!
//! The kernel does not report when a completion was queued. Therefore the driver occasionally queues its own completion
//! by writing to its wakeup event, and measures how long that waits.

use std::time::{Duration, Instant};

use crate::unpark::Wake;

/// A probe in the kernel's completion queue.
#[derive(Default)]
pub(crate) struct QueueDelayProbe {
    /// Whether a submit skipped reaping since the last probe was sent.
    skipped: bool,
    probe: Probe,
}

#[derive(Default)]
enum Probe {
    #[default]
    Idle,
    /// Sent at this time and not reaped yet.
    Sent(Instant),
    /// Reaped after this delay.
    Reaped(Duration),
}

impl QueueDelayProbe {
    /// Records that the driver submitted without reaping.
    pub(crate) fn reaping_skipped(&mut self) {
        self.skipped = true;
    }

    /// Records that the wakeup event was reaped. If another thread wrote to the event before the probe, the measurement
    /// is too short.
    pub(crate) fn reaped(&mut self) {
        if let Probe::Sent(since) = self.probe {
            self.probe = Probe::Reaped(since.elapsed());
        }
    }

    /// Discards a finished measurement before the processor parks, because the queue is then empty.
    pub(crate) fn parks(&mut self) {
        self.skipped = false;
        if let Probe::Reaped(_) = self.probe {
            self.probe = Probe::Idle;
        }
    }

    /// The last probe's delay, or its delay so far if it is still queued; zero without a probe. Sends the next probe if
    /// reaping was skipped since the last one.
    pub(crate) fn take(&mut self, event: &impl Wake) -> Duration {
        let skipped = std::mem::take(&mut self.skipped);
        let delay = match self.probe {
            Probe::Sent(since) => return since.elapsed(),
            Probe::Reaped(delay) => delay,
            Probe::Idle => Duration::ZERO,
        };
        self.probe =
            if skipped && event.wake().is_ok() { Probe::Sent(Instant::now()) } else { Probe::Idle };
        delay
    }
}
