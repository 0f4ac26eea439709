//! Coalescing of I/O completions: an idle processor waits briefly for several completions instead of one.
//!
//! Below saturation, requests arrive so slowly that cohorts at the sockets stay small, and each completion costs a turn
//! and a system call. Waiting for several makes requests cheaper but delays responses. The 2002 paper (§2) says that a
//! server can defer requests until a cohort has arrived, but does not describe such a wait, so the bounds are
//! Phalanx's. Two rules prevent useless waits: the recent completion rate must be high enough to fill a cohort within
//! the limit, and after a wait with few completions, the processor does not wait for a while.

use std::time::Duration;

/// The minimum number of expected completions. Fewer do not pay for the wake-up that a wait costs.
const MIN_COMPLETIONS: f64 = 16.0;
/// The maximum number of completions to wait for. Larger batches are not cheaper, because the kernel's socket state no
/// longer fits into the cache.
const MAX_COMPLETIONS: f64 = 64.0;
/// A wait with fewer completions has failed.
const MIN_PER_WAIT: usize = 4;
/// The pause after a failed wait, as a multiple of the limit.
const BACKOFF: u32 = 16;

/// Decides when to wait, and for how many completions.
#[derive(Debug)]
pub(crate) struct Coalescing {
    limit: Duration,
    /// The window in which completions are counted, and their number.
    window_start: Duration,
    completions_seen: usize,
    /// Expected completions within the limit, from the last window.
    expected: f64,
    /// Whether the next completions follow a wait.
    waited: bool,
    /// End of the pause after a failed wait.
    backoff_until: Duration,
}

impl Coalescing {
    /// Creates the state for waits of at most `limit`.
    pub(crate) fn new(limit: Duration) -> Self {
        let zero = Duration::ZERO;
        let (window_start, backoff_until) = (zero, zero);
        Self {
            limit,
            window_start,
            completions_seen: 0,
            expected: 0.0,
            waited: false,
            backoff_until,
        }
    }

    /// Changes the maximum wait. If it differs from the previous one, the rate is measured again.
    pub(crate) fn set_limit(&mut self, limit: Duration) {
        if limit != self.limit {
            *self = Self::new(limit);
        }
    }

    /// Records completions at `now`.
    pub(crate) fn record(&mut self, completions: usize, now: Duration) {
        if std::mem::take(&mut self.waited) && completions < MIN_PER_WAIT {
            self.backoff_until = now + BACKOFF * self.limit;
        }
        self.completions_seen += completions;
        let window = now.saturating_sub(self.window_start);
        if window >= self.limit {
            self.expected =
                self.completions_seen as f64 * self.limit.as_secs_f64() / window.as_secs_f64();
            (self.window_start, self.completions_seen) = (now, 0);
        }
    }

    /// The number of completions to wait for, and the maximum wait; `None` if there should be no wait.
    pub(crate) fn plan(&mut self, now: Duration) -> Option<(usize, Duration)> {
        if self.expected < MIN_COMPLETIONS || now < self.backoff_until {
            return None;
        }
        self.waited = true;
        Some((self.expected.min(MAX_COMPLETIONS) as usize, self.limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(1);

    /// The state after completions at this rate per second, one by one, for 10 ms.
    fn after(rate: u32) -> (Coalescing, Duration) {
        let mut coalescing = Coalescing::new(LIMIT);
        let (gap, mut now) = (Duration::from_secs(1) / rate, Duration::from_secs(9));
        for _ in 0..rate / 100 {
            now += gap;
            coalescing.record(1, now);
        }
        (coalescing, now)
    }

    #[test]
    fn waits_if_the_rate_fills_a_cohort() {
        for (rate, wanted) in
            [(1_000, None), (10_000, None), (30_000, Some(30)), (200_000, Some(64))]
        {
            let (mut coalescing, now) = after(rate);
            let plan = coalescing.plan(now).map(|(wanted, _)| wanted);
            let near = |a: usize, b: usize| a.abs_diff(b) <= 2;
            assert!(
                match (plan, wanted) {
                    (Some(a), Some(b)) => near(a, b),
                    (a, b) => a == b,
                },
                "{rate} a second: {plan:?}"
            );
        }
    }

    #[test]
    fn a_failed_wait_is_followed_by_a_pause() {
        let (mut coalescing, mut now) = after(60_000);
        assert!(coalescing.plan(now).is_some());
        coalescing.record(3, now);
        for _ in 0..BACKOFF {
            assert_eq!(coalescing.plan(now), None);
            now += LIMIT;
            coalescing.record(60, now);
        }
        assert!(coalescing.plan(now).is_some(), "after the pause");
        coalescing.record(60, now + LIMIT);
        assert!(coalescing.plan(now + LIMIT).is_some(), "the wait succeeded");
    }

    #[test]
    fn waits_end_with_the_stream() {
        let (mut coalescing, now) = after(60_000);
        coalescing.record(0, now + 5 * LIMIT);
        coalescing.record(1, now + 10 * LIMIT);
        assert_eq!(coalescing.plan(now + 10 * LIMIT), None);
    }
}
