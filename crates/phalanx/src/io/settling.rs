//! Ending all requests, after the end of the processor's operations.

use std::io;
use std::time::{Duration, Instant};

use super::abandoned::FINISH_LIMIT;
use super::{Entry, Io, State};

/// The time between two checks whether a draining program is ending.
const REAP_INTERVAL: Duration = Duration::from_millis(100);

fn runs_to_completion(state: &State) -> bool {
    matches!(state, State::Finishing(_))
}

impl Io {
    /// Ends all requests after the processor's end, including those whose futures moved to another processor. Writes of
    /// streams that were dropped complete, unless the program `is_ending`, for at most [`FINISH_LIMIT`]. All others are
    /// cancelled. Waits up to `timeout` for their completions, because until then the kernel uses their buffers.
    pub(crate) fn settle(&self, is_ending: impl Fn() -> bool, timeout: Duration) -> io::Result<()> {
        self.closed.set(true);
        self.immediate_sends_left.set(0);
        self.immediate_accepts_left.set(0);
        self.abandon_each(|state| !runs_to_completion(state));
        // A write's limit counts from the time when its stream was dropped.
        let (now, start) = (self.turn_began.get(), Instant::now());
        let in_time = |entry: &Entry| now + start.elapsed() < entry.expires;
        self.reap_while(FINISH_LIMIT, |entry| {
            runs_to_completion(&entry.state) && in_time(entry) && !is_ending()
        })?;
        self.abandon_each(runs_to_completion);
        self.reclaim(timeout)
    }

    fn abandon_each(&self, predicate: impl Fn(&State) -> bool) {
        let select = |(key, entry): (usize, &Entry)| predicate(&entry.state).then_some(key);
        let keys: Vec<_> = self.requests.borrow().iter().filter_map(select).collect();
        keys.into_iter().for_each(|key| self.abandon(key));
    }

    /// Waits up to `timeout` for the completions of all requests whose futures were dropped.
    pub(crate) fn reclaim(&self, timeout: Duration) -> io::Result<()> {
        let is_awaited = |state: &State| !matches!(state, State::Waiting(_) | State::Done(_));
        self.reap_while(timeout, |entry| is_awaited(&entry.state))
    }

    /// Processes completions while any request `is_awaited`, for at most `timeout`.
    fn reap_while(&self, timeout: Duration, is_awaited: impl Fn(&Entry) -> bool) -> io::Result<()> {
        let deadline = Instant::now() + timeout;
        while self.requests.borrow().iter().any(|(_, entry)| is_awaited(entry)) {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                break;
            }
            self.driver.borrow_mut().park(Some(remaining.min(REAP_INTERVAL)))?;
            self.reap()?;
        }
        Ok(())
    }

    /// Whether the write of a stream that was dropped is in progress.
    #[cfg(feature = "sim")]
    pub(crate) fn is_finishing(&self) -> bool {
        self.requests.borrow().iter().any(|(_, entry)| runs_to_completion(&entry.state))
    }
}
