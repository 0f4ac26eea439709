//! Adaptive spinning: how long an idle processor polls before it sleeps.
//!
//! A sleep costs CPU time: a system call, two context switches and the wake-up. Polling that finds work saves this cost
//! and pays only for the time until the work arrived. Polling that finds nothing wastes all of its time. Each idle
//! period therefore has a *gain*, possibly negative, which depends on the polling time. The gain also depends on the
//! machine and the load: how soon work arrives, and whether the peer or other programs need this core.
//!
//! The processor measures the gain in *trials*. In a trial it polls for the maximum time during several consecutive
//! idle periods and sums the gain that each candidate length would have had. Idle times are measured in wall time, so
//! the measurement is correct even if the processor is preempted while it polls: its work then arrives late.
//!
//! The sum does not include the effect of polling on the work itself. A processor that sleeps finds several requests
//! when it wakes; one that polls finds each of them alone, in a smaller cohort and with more system calls. So if the
//! best length has a positive gain, it is *compared* with sleeping: the processor alternates between polling for that
//! length and sleeping immediately, and measures its CPU time per operation. If polling costs no more, the processor
//! polls until the next trial. During that time it sums the gains, and stops polling when the balance falls below zero.
//! Each unsuccessful trial doubles the distance to the next one.
//!
//! Even a processor that does not poll checks once for input between its last work and its sleep. The check takes a
//! turn and, with some drivers, a system call. The sleep checks for input too, but costs more if there is some. So the
//! check is skipped after [`VAIN_LOOKS`] checks that found nothing, until a sleep ends sooner than it takes to sleep.

use super::spin_comparison::Comparison;

/// The number of polling times that a trial compares. The first is the maximum, and each of the others is half of the
/// previous one.
const CANDIDATES: usize = 4;
/// The number of idle periods in a trial.
const TRIAL_PERIODS: u8 = 8;
/// The minimum and maximum number of idle periods between two trials.
const TRIAL_SPACING: (u32, u32) = (512, 8192);
/// The number of consecutive checks without input after which a processor parks without a check.
const MAX_EMPTY_CHECKS: u8 = 4;

/// The spin state of one processor.
pub(crate) struct AdaptiveSpin {
    /// The maximum polling time, in nanoseconds.
    max_spin: u64,
    /// The polling time outside trials, in nanoseconds. Zero disables polling.
    spin: u64,
    /// The sum of gains since the length was chosen, in nanoseconds. It has an upper bound.
    balance: i64,
    /// The number of idle periods left in the current trial.
    trial: u8,
    /// The sum of gains of each candidate length in this trial.
    gains: [i64; CANDIDATES],
    /// The comparison that follows a trial in which some length had a positive gain.
    comparison: Option<Comparison>,
    /// The number of idle periods left until the next trial, and the distance between the last trial and the next.
    until_trial: u32,
    spacing: u32,
    /// The number of consecutive checks before a sleep that found no input.
    empty_checks: u8,
}

impl AdaptiveSpin {
    /// Creates the state for a processor that polls for at most `max_spin` nanoseconds. It starts with a
    /// trial.
    pub(crate) fn new(max_spin: u64) -> Self {
        let (trial, gains) = (TRIAL_PERIODS, [0; CANDIDATES]);
        Self {
            max_spin,
            spin: 0,
            balance: 0,
            trial,
            gains,
            comparison: None,
            until_trial: 0,
            spacing: TRIAL_SPACING.0,
            empty_checks: 0,
        }
    }

    /// The time to poll before sleeping, in nanoseconds, at most `max_spin`. If `max_spin` has changed, a trial begins.
    #[inline]
    pub(crate) fn spin_time(&mut self, max_spin: u64) -> u64 {
        if max_spin != self.max_spin {
            *self = Self::new(max_spin);
        }
        match &self.comparison {
            Some(comparison) => comparison.length(),
            None if self.trial > 0 => self.max_spin,
            None => self.spin,
        }
    }

    /// Whether to sleep after work without another check for input.
    #[inline]
    pub(crate) fn parks_at_once(&mut self, max_spin: u64) -> bool {
        self.spin_time(max_spin) == 0 && self.empty_checks >= MAX_EMPTY_CHECKS
    }

    /// Records that the check for input before a sleep found none.
    #[inline]
    pub(crate) fn idle_expired(&mut self) {
        self.empty_checks = self.empty_checks.saturating_add(1);
    }

    /// Records that input had arrived during the last work.
    #[inline]
    pub(crate) fn input_arrived(&mut self) {
        self.empty_checks = 0;
    }

    /// Records that work arrived after `idle` nanoseconds. A sleep costs `sleep` nanoseconds of CPU time. The processor
    /// has run `operations` so far, and `processor_time` returns the CPU time that its thread has used, in nanoseconds.
    #[inline]
    pub(crate) fn idle_ended(
        &mut self,
        idle: u64,
        sleep: u64,
        operations: u64,
        processor_time: impl FnOnce() -> u64,
    ) {
        if idle < sleep {
            self.input_arrived();
        }
        if self.trial > 0 {
            return self.record_trial(idle, sleep, operations, processor_time);
        }
        self.balance = (self.balance + gain(self.spin_time(self.max_spin), idle, sleep))
            .min(max_balance(sleep));
        if self.balance < 0 {
            return self.stop();
        }
        if let Some(comparison) = &mut self.comparison {
            if let Some(length) = comparison.record_idle(operations, processor_time) {
                self.end_comparison(length);
            }
            return;
        }
        self.until_trial = self.until_trial.saturating_sub(1);
        if self.until_trial == 0 {
            if self.spin > 0 {
                self.spacing = (self.spacing / 2).max(TRIAL_SPACING.0);
            }
            (self.trial, self.gains) = (TRIAL_PERIODS, [0; CANDIDATES]);
        }
    }

    #[cold]
    fn record_trial(
        &mut self,
        idle: u64,
        sleep: u64,
        operations: u64,
        processor_time: impl FnOnce() -> u64,
    ) {
        for (halvings, sum) in self.gains.iter_mut().enumerate() {
            *sum += gain(self.max_spin >> halvings, idle, sleep);
        }
        self.trial -= 1;
        if self.trial > 0 {
            return;
        }
        let best = self.gains.into_iter().enumerate().max_by_key(|(_, sum)| *sum);
        match best {
            Some((halvings, sum)) if sum > 0 => {
                self.balance = sum;
                self.comparison =
                    Some(Comparison::new(self.max_spin >> halvings, operations, processor_time()));
            }
            _ => self.stop(),
        }
    }

    /// Ends a comparison. A `length` of zero means that sleeping is cheaper.
    fn end_comparison(&mut self, length: u64) {
        match length {
            0 => self.stop(),
            _ => (self.spin, self.until_trial, self.comparison) = (length, self.spacing, None),
        }
    }

    fn stop(&mut self) {
        (self.spin, self.balance, self.comparison) = (0, 0, None);
        self.spacing = (self.spacing * 2).min(TRIAL_SPACING.1);
        self.until_trial = self.spacing;
    }
}

/// The upper bound of the balance, in nanoseconds, if a sleep costs `sleep`.
fn max_balance(sleep: u64) -> i64 {
    i64::from(TRIAL_PERIODS) * sleep as i64
}

/// The CPU time saved by polling for `length` instead of sleeping immediately, in nanoseconds.
fn gain(length: u64, idle: u64, sleep: u64) -> i64 {
    if idle < length { sleep as i64 - idle as i64 } else { -(length as i64) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX_SPIN: u64 = 20;
    const SLEEP: u64 = 5;

    /// A processor, its operations and its processor time.
    struct Thread {
        spinning: AdaptiveSpin,
        operations: u64,
        time: u64,
    }

    impl Thread {
        fn new(max_spin: u64) -> Self {
            Self { spinning: AdaptiveSpin::new(max_spin), operations: 0, time: 0 }
        }

        /// Idles for `idle` nanoseconds, then runs `operations` if it slept, or one operation if it polled. A cohort
        /// costs [`SLEEP`]. Returns the gain of polling.
        fn idle(&mut self, idle: u64, operations: u64) -> i64 {
            let max_spin = self.spinning.max_spin;
            let length = self.spinning.spin_time(max_spin);
            let polled = idle < length;
            self.operations += if polled { 1 } else { operations };
            self.time += SLEEP + if polled { idle } else { length + SLEEP };
            self.spinning.idle_ended(idle, SLEEP, self.operations, || self.time);
            gain(length, idle, SLEEP)
        }
    }

    /// Returns the sum of gains over these idle periods, and the length chosen after the last one.
    fn run_idle_periods(idle: impl IntoIterator<Item = u64>) -> (i64, u64) {
        let mut thread = Thread::new(MAX_SPIN);
        let sum = idle.into_iter().map(|idle| thread.idle(idle, 1)).sum();
        (sum, thread.spinning.spin)
    }

    #[test]
    fn a_processor_polls_if_work_arrives_soon() {
        let (sum, chosen) = run_idle_periods([1; 1000]);
        // Two comparisons, in each of which half of 96 idle periods sleep.
        assert!(sum == 4 * (1000 - 2 * 48) && chosen > 0, "{sum}");
    }

    #[test]
    fn polling_that_divides_cohorts_is_not_chosen() {
        let chosen = |operations| {
            let mut thread = Thread::new(MAX_SPIN);
            (0..200).for_each(|_| _ = thread.idle(1, operations));
            thread.spinning.spin
        };
        assert!(chosen(1) > 0, "a polled operation costs 6, and one after a sleep 10");
        assert_eq!(chosen(4), 0, "one of four after a sleep costs 2.5");
    }

    #[test]
    fn polling_ends_if_work_arrives_late_and_trials_become_rare() {
        let (sum, chosen) = run_idle_periods(std::iter::repeat_n(1000, 100_000));
        // Seven trials at doubling distances, then one every 8192 idle periods, against a sleep cost of
        // half a million.
        assert!((-20 * 8 * 20..0).contains(&sum) && chosen == 0, "{sum}");
    }

    #[test]
    fn work_that_comes_in_time_but_dearer_than_a_sleep_is_not_polled_for() {
        let (_, chosen) = run_idle_periods([SLEEP + 1; 1000]);
        assert_eq!(chosen, 0);
    }

    #[test]
    fn a_short_poll_is_chosen_where_half_of_the_work_comes_late() {
        let (_, chosen) = run_idle_periods((0..160).map(|n| if n % 2 == 0 { 1 } else { 1000 }));
        assert_eq!(chosen, MAX_SPIN >> 3);
    }

    #[test]
    fn a_load_that_changes_is_found() {
        let (_, chosen) = run_idle_periods([1; 200].into_iter().chain([1000; 30]));
        assert_eq!(chosen, 0, "it stops at a loss of eight sleeps");
        let (_, chosen) = run_idle_periods([1000; 100].into_iter().chain([1; 2000]));
        assert!(chosen > 0, "the next trials find it");
    }

    #[test]
    fn checks_that_find_nothing_are_left_out_until_input_is_there() {
        let mut spinning = AdaptiveSpin::new(0);
        let checks = |spinning: &mut AdaptiveSpin, number| {
            (0..number).for_each(|_| spinning.idle_expired());
            spinning.parks_at_once(0)
        };
        assert!(!checks(&mut spinning, MAX_EMPTY_CHECKS - 1));
        spinning.input_arrived();
        assert!(!checks(&mut spinning, MAX_EMPTY_CHECKS - 1), "not in a row");
        assert!(checks(&mut spinning, 1));
        spinning.idle_ended(SLEEP, SLEEP, 0, || 0);
        assert!(spinning.parks_at_once(0));
        spinning.idle_ended(SLEEP - 1, SLEEP, 0, || 0);
        assert!(!spinning.parks_at_once(0), "there was input already");
    }

    #[test]
    fn a_processor_that_polls_does_not_park_at_once() {
        let mut spinning = AdaptiveSpin::new(MAX_SPIN);
        (0..MAX_EMPTY_CHECKS).for_each(|_| spinning.idle_expired());
        assert!(!spinning.parks_at_once(MAX_SPIN), "in a trial");
        (0..TRIAL_PERIODS).for_each(|_| spinning.idle_ended(1000, SLEEP, 0, || 0));
        assert!(spinning.parks_at_once(MAX_SPIN), "polling does not pay");
    }

    #[test]
    fn nobody_polls_without_a_length() {
        let mut spinning = AdaptiveSpin::new(0);
        for idle in [0, 1, 1000].into_iter().cycle().take(1000) {
            assert_eq!(spinning.spin_time(0), 0);
            spinning.idle_ended(idle, SLEEP, 0, || 0);
        }
    }

    proptest! {
        /// The loss is bounded by the trials themselves plus eight sleeps after each.
        #[test]
        fn losses_are_bounded(idle in proptest::collection::vec(0u64..40, 1..4000)) {
            let (mut thread, mut sum, mut trials) = (Thread::new(MAX_SPIN), 0, 1);
            for idle in idle {
                let before = thread.spinning.trial;
                sum += thread.idle(idle, 1);
                trials += i64::from(before == 0 && thread.spinning.trial > 0);
            }
            let each = 8 * MAX_SPIN + 8 * SLEEP + MAX_SPIN;
            prop_assert!(sum >= -trials * each as i64, "{} in {} trials", sum, trials);
        }
    }
}
