//! The law of admission: how many operations may be in flight, from how long work waits.
//!
//! Breakwater's form (Cho et al., OSDI 2020): while the wait is below its target, credits grow by a
//! small part; above it they shrink in proportion to the excess, by half at most. Some things are
//! ours. Without congestion there is no limit at all, and one interval of it is not congestion yet:
//! a machine that was held up for a moment has a queue too. And credits never fall below what a
//! quarter of the target lets in: where refusing costs as much as serving, waits do not become
//! shorter by refusing, and a law without a floor would end by refusing everybody.
//!
//! No clock, no randomness: told when an interval is over, it says how many.

/// Intervals in a row above the target before there is a limit.
const PATIENCE: u32 = 3;
/// Credits never fall below what comes within this part of the target.
const FLOOR: f64 = 0.25;
/// How much of the relative excess is taken off, and the most that is.
const SHRINK: f64 = 0.5;
/// By how much credits grow, as a part of them.
const GROW: f64 = 1.0 / 16.0;
/// A limit this many times what was in flight binds nobody and is dropped.
const LOOSE: f64 = 4.0;

/// Credits of one entry on one processor.
pub(crate) struct Credits {
    /// In nanoseconds.
    target: f64,
    /// Infinite when there is none.
    limit: f64,
    in_flight: u32,
    /// The most that were in flight in this interval.
    peak: u32,
    admitted: u64,
    refused: u64,
    /// Intervals in a row that were above the target.
    above: u32,
    /// Nanoseconds until the last step down shows.
    settling: u64,
}

impl Credits {
    pub(crate) fn new(target: u64) -> Self {
        Self {
            target: target.max(1) as f64,
            limit: f64::INFINITY,
            in_flight: 0,
            peak: 0,
            admitted: 0,
            refused: 0,
            above: 0,
            settling: 0,
        }
    }

    /// Takes a credit, if there is one.
    #[inline]
    pub(crate) fn take(&mut self) -> bool {
        if f64::from(self.in_flight) >= self.limit {
            self.refused += 1;
            return false;
        }
        self.admitted += 1;
        self.in_flight += 1;
        self.peak = self.peak.max(self.in_flight);
        true
    }

    /// Gives one back.
    #[inline]
    pub(crate) fn give(&mut self) {
        self.in_flight -= 1;
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The most that may be in flight; none without a limit.
    pub(crate) fn limit(&self) -> Option<u32> {
        self.limit.is_finite().then(|| self.limit.ceil() as u32)
    }

    /// An interval of `length` is over in which the wait was `wait`, both in nanoseconds.
    pub(crate) fn interval_over(&mut self, wait: u64, length: u64) {
        let (wait, peak) = (wait as f64, f64::from(self.peak.max(1)));
        let decided = (self.admitted + self.refused) as f64;
        let floor = (decided * FLOOR * self.target / length.max(1) as f64).max(1.0);
        let before = self.limit;
        self.settling = self.settling.saturating_sub(length);
        if wait > self.target {
            self.above += 1;
            let excess = (wait - self.target) / self.target;
            if self.limit.is_infinite() {
                // Waits are as long as what is in flight: this many are wanted, at a first guess.
                if self.above >= PATIENCE {
                    self.limit = (peak * self.target / wait).max(floor);
                }
            } else if self.settling == 0 {
                let shrunk = self.limit.min(peak) * (1.0 - (SHRINK * excess).min(SHRINK));
                self.limit = shrunk.max(floor);
            }
            if self.limit < before {
                // Who waits now came before this step, and says nothing about it.
                self.settling = wait as u64;
            }
        } else {
            self.above = 0;
            self.limit = (self.limit + (self.limit * GROW).max(1.0)).max(floor);
            if self.refused == 0 && self.limit > LOOSE * peak {
                self.limit = f64::INFINITY;
            }
        }
        (self.admitted, self.refused, self.peak) = (0, 0, self.in_flight);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const TARGET: u64 = 10_000_000;
    const INTERVAL: u64 = 10_000_000;
    /// What a client wants.
    const OBJECTIVE: u64 = 50_000_000;
    const MS: u64 = 1_000_000;
    /// Operations of a turn, as in a stage that touches sockets.
    const COHORT: usize = 64;

    /// A processor that takes in what has come, decides, works on a cohort, and turns again.
    struct Server {
        credits: Credits,
        /// Nanoseconds that an admitted request takes, and one that is refused.
        cost: [u64; 2],
        /// Requests that the outside has under way at most.
        clients: usize,
        random: u64,
        now: u64,
        next: u64,
        arrived: VecDeque<u64>,
        /// Admitted: when they arrived and when they were queued.
        work: VecDeque<(u64, u64)>,
        turned: u64,
        began: u64,
        /// Waits of this interval, outside and in the queue.
        smallest: [u64; 2],
    }

    /// What a while of load has come to.
    #[derive(Debug, Default)]
    struct Outcome {
        served: usize,
        good: usize,
        refused: usize,
        /// Of those served, in nanoseconds.
        latency: Vec<u64>,
    }

    impl Outcome {
        fn p99(&mut self) -> u64 {
            self.latency.sort_unstable();
            self.latency.get(self.latency.len() * 99 / 100).copied().unwrap_or(0)
        }
    }

    impl Server {
        fn new(service: u64, refusal: f64, clients: usize, seed: u64) -> Self {
            Self {
                credits: Credits::new(TARGET),
                cost: [service, (service as f64 * refusal) as u64],
                clients,
                random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
                now: 0,
                next: 0,
                arrived: VecDeque::new(),
                work: VecDeque::new(),
                turned: 0,
                began: 0,
                smallest: [u64::MAX; 2],
            }
        }

        /// Exponentially distributed.
        fn gap(&mut self, mean: f64) -> u64 {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let uniform = ((self.random >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
            (-uniform.ln() * mean) as u64
        }

        /// `load` is in capacities.
        fn run(&mut self, load: f64, duration: u64) -> Outcome {
            let (mut outcome, end) = (Outcome::default(), self.now + duration);
            let mean = self.cost[0] as f64 / load;
            self.next = self.now;
            while self.now < end {
                if self.arrived.is_empty() && self.work.is_empty() && self.next > self.now {
                    self.now = self.next;
                    self.turned = self.now;
                }
                while self.next <= self.now {
                    self.arrived.push_back(self.next);
                    self.next += self.gap(mean);
                }
                self.turn(&mut outcome);
            }
            outcome
        }

        fn turn(&mut self, outcome: &mut Outcome) {
            let queued = self.work.front().map_or(self.now, |work| work.1);
            self.smallest[0] = self.smallest[0].min(self.now - self.turned);
            self.smallest[1] = self.smallest[1].min(self.now - queued);
            self.turned = self.now;
            if self.now - self.began >= INTERVAL {
                let wait = self.smallest[0] + self.smallest[1];
                self.credits.interval_over(wait, self.now - self.began);
                (self.began, self.smallest) = (self.now, [u64::MAX; 2]);
            }
            while self.work.len() < self.clients {
                let Some(arrival) = self.arrived.pop_front() else { break };
                if self.credits.take() {
                    self.work.push_back((arrival, self.turned));
                } else {
                    self.now += self.cost[1];
                    outcome.refused += 1;
                }
            }
            for _ in 0..COHORT {
                let Some((arrival, _)) = self.work.pop_front() else { break };
                self.now += self.cost[0];
                self.credits.give();
                outcome.served += 1;
                outcome.good += usize::from(self.now - arrival <= OBJECTIVE);
                outcome.latency.push(self.now - arrival);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever a request costs, and a refusal: below saturation there is none.
        #[test]
        fn nothing_is_refused_below_saturation(
            service in 3_000u64..400_000, refusal in 0.0..1.0, load in 0.01..0.9, seed: u64,
        ) {
            let mut server = Server::new(service, refusal, 2000, seed);
            let outcome = server.run(load, 2000 * MS);
            prop_assert_eq!(outcome.refused, 0);
            prop_assert_eq!(server.credits.limit(), None);
        }

        /// After a step to any overload: once what was let in before it was noticed is done, what
        /// can be done is done in time.
        #[test]
        fn overload_does_not_collapse(
            service in 50_000u64..400_000, refusal in 0.005..0.05, load in 1.3..3.5, seed: u64,
        ) {
            let mut server = Server::new(service, refusal, 2000, seed);
            let calm = server.run(0.7, 300 * MS);
            prop_assert_eq!(calm.refused, 0);
            server.run(load, 300 * MS);
            let mut outcome = server.run(load, 1000 * MS);
            // What refusing leaves of the time.
            let possible = (1.0 - load * refusal) / (1.0 - refusal) * 1e9 / service as f64;
            let good = outcome.good as f64;
            prop_assert!(good > 0.9 * possible, "{good} of {possible}");
            prop_assert!(outcome.p99() < 2 * OBJECTIVE, "{} ms", outcome.p99() / MS);
        }

        /// When it is over nobody is refused any more, and the limit goes.
        #[test]
        fn overload_ends(service in 50_000u64..400_000, load in 1.5..3.0, seed: u64) {
            let mut server = Server::new(service, 0.03, 2000, seed);
            let over = server.run(load, 500 * MS);
            prop_assert!(over.refused > 0);
            server.run(0.5, 700 * MS);
            let calm = server.run(0.7, 1000 * MS);
            prop_assert_eq!(calm.refused, 0);
            prop_assert_eq!(server.credits.limit(), None);
        }
    }

    #[test]
    fn one_bad_moment_is_no_congestion() {
        let mut credits = Credits::new(TARGET);
        for _ in 0..100 {
            credits.interval_over(9 * TARGET, INTERVAL);
            credits.interval_over(9 * TARGET, INTERVAL);
            credits.interval_over(0, INTERVAL);
        }
        assert_eq!(credits.limit(), None);
    }

    #[test]
    fn refusing_what_costs_nothing_less_has_a_floor() {
        let mut credits = Credits::new(TARGET);
        for _ in 0..1000 {
            let admitted = (0..1500).filter(|_| credits.take()).count();
            (0..admitted).for_each(|_| credits.give());
            // All the same to the wait.
            credits.interval_over(5 * TARGET, INTERVAL);
        }
        assert_eq!(credits.limit(), Some(375), "a quarter of the target lets in that many");
    }

    #[test]
    fn credits_come_back() {
        let mut credits = Credits::new(TARGET);
        assert!((0..8).all(|_| credits.take()));
        (0..PATIENCE).for_each(|_| credits.interval_over(2 * TARGET, 1000 * INTERVAL));
        credits.interval_over(2 * TARGET, INTERVAL);
        assert_eq!(credits.limit(), Some(4), "once, and not again until it shows");
        assert!(!credits.take());
        (0..5).for_each(|_| credits.give());
        assert!(credits.take() && !credits.take());
        assert_eq!(credits.in_flight(), 4);
        credits.interval_over(3 * TARGET, 1000 * INTERVAL);
        assert_eq!(credits.limit(), Some(2), "by half at most");
    }
}
