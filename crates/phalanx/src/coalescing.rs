//! Coalescing: a processor that has nothing to do waits a little for more than one thing to do.
//!
//! Below saturation the outside sends so slowly that cohorts at the sockets stay small, and each
//! completion pays for a turn and a system call of its own. Waiting for some of them makes what a
//! request costs smaller and its answer later. The 2002 paper (§2) says that a server can defer requests
//! until a cohort has arrived; it describes no such wait, so the bounds on it are ours. Two
//! things make sure that waiting is not for nothing: what came lately must fill a cohort within the
//! time, and after a wait that brought next to nothing there is none for a while.

use std::time::Duration;

/// Not worth waiting for fewer: the wait itself costs a wake-up.
const FEWEST: f64 = 16.0;
/// More do not get cheaper: the kernel's state of as many sockets leaves the cache again.
const MOST: f64 = 64.0;
/// A wait that brought fewer was for nothing.
const DISAPPOINTING: usize = 4;
/// And then there is none for so many times the limit.
const PAUSE: u32 = 16;

/// When to wait, and for how much.
#[derive(Debug)]
pub(crate) struct Coalescing {
    limit: Duration,
    /// The window over which completions are counted, and how many came in it.
    began: Duration,
    came: usize,
    /// Completions in a limit's time, by the last window.
    expected: f64,
    /// Whether what comes next was waited for.
    waited: bool,
    /// No wait before.
    not_before: Duration,
}

impl Coalescing {
    /// Waits for `limit` at most.
    pub(crate) fn new(limit: Duration) -> Self {
        let zero = Duration::ZERO;
        let (began, not_before) = (zero, zero);
        Self { limit, began, came: 0, expected: 0.0, waited: false, not_before }
    }

    /// So many completions have come, at `now`.
    pub(crate) fn came(&mut self, completions: usize, now: Duration) {
        if std::mem::take(&mut self.waited) && completions < DISAPPOINTING {
            self.not_before = now + PAUSE * self.limit;
        }
        self.came += completions;
        let window = now.saturating_sub(self.began);
        if window >= self.limit {
            self.expected = self.came as f64 * self.limit.as_secs_f64() / window.as_secs_f64();
            (self.began, self.came) = (now, 0);
        }
    }

    /// For how many completions to wait now, and for how long at most; none for not at all.
    pub(crate) fn wish(&mut self, now: Duration) -> Option<(usize, Duration)> {
        if self.expected < FEWEST || now < self.not_before {
            return None;
        }
        self.waited = true;
        Some((self.expected.min(MOST) as usize, self.limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(1);

    /// So many completions a second, one by one, for 10 ms.
    fn after(rate: u32) -> (Coalescing, Duration) {
        let mut coalescing = Coalescing::new(LIMIT);
        let (gap, mut now) = (Duration::from_secs(1) / rate, Duration::from_secs(9));
        for _ in 0..rate / 100 {
            now += gap;
            coalescing.came(1, now);
        }
        (coalescing, now)
    }

    #[test]
    fn it_waits_where_that_fills_a_cohort() {
        for (rate, wanted) in
            [(1_000, None), (10_000, None), (30_000, Some(30)), (200_000, Some(64))]
        {
            let (mut coalescing, now) = after(rate);
            let wish = coalescing.wish(now).map(|(wanted, _)| wanted);
            let near = |a: usize, b: usize| a.abs_diff(b) <= 2;
            assert!(
                match (wish, wanted) {
                    (Some(a), Some(b)) => near(a, b),
                    (a, b) => a == b,
                },
                "{rate} a second: {wish:?}"
            );
        }
    }

    #[test]
    fn a_wait_for_nothing_is_not_repeated_soon() {
        let (mut coalescing, mut now) = after(60_000);
        assert!(coalescing.wish(now).is_some());
        coalescing.came(3, now);
        for _ in 0..PAUSE {
            assert_eq!(coalescing.wish(now), None);
            now += LIMIT;
            coalescing.came(60, now);
        }
        assert!(coalescing.wish(now).is_some(), "later it is");
        coalescing.came(60, now + LIMIT);
        assert!(coalescing.wish(now + LIMIT).is_some(), "it was worth it");
    }

    #[test]
    fn when_the_stream_ends_so_do_the_waits() {
        let (mut coalescing, now) = after(60_000);
        coalescing.came(0, now + 5 * LIMIT);
        coalescing.came(1, now + 10 * LIMIT);
        assert_eq!(coalescing.wish(now + 10 * LIMIT), None);
    }
}
