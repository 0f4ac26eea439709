//! Comparison of polling with sleeping by CPU time per operation.

/// The number of phases of a comparison, of which every second one polls, and the number of idle periods in each.
const PHASES: u8 = 6;
const PHASE_PERIODS: u8 = 16;

/// A comparison in progress. The phases alternate, so that a load that changes slowly affects both arms.
pub(super) struct Comparison {
    /// The polling time, in nanoseconds.
    length: u64,
    /// The current phase, and the number of idle periods left in it.
    phase: u8,
    periods: u8,
    /// The operations and the CPU time at the beginning of the phase.
    phase_start: (u64, u64),
    /// The operations and the CPU time in all phases that slept, and in all that polled.
    used: [(u64, u64); 2],
}

impl Comparison {
    /// Begins to compare polling for `length` nanoseconds with sleeping immediately. So far, this thread has run
    /// `operations` and used `processor_time` nanoseconds of CPU time.
    pub(super) fn new(length: u64, operations: u64, processor_time: u64) -> Self {
        Self {
            length,
            phase: 0,
            periods: PHASE_PERIODS,
            phase_start: (operations, processor_time),
            used: [(0, 0); 2],
        }
    }

    /// The polling time of this phase, in nanoseconds.
    pub(super) fn length(&self) -> u64 {
        if self.polls() { self.length } else { 0 }
    }

    fn polls(&self) -> bool {
        self.phase % 2 == 1
    }

    /// Records an idle period. After the last one, returns the polling time if polling costs no more than sleeping,
    /// otherwise zero. `operations` and the result of `processor_time` are as in [`new`](Self::new).
    pub(super) fn record_idle(
        &mut self,
        operations: u64,
        processor_time: impl FnOnce() -> u64,
    ) -> Option<u64> {
        self.periods -= 1;
        if self.periods > 0 {
            return None;
        }
        let now = (operations, processor_time());
        let used = &mut self.used[usize::from(self.polls())];
        *used = (
            used.0 + now.0 - self.phase_start.0,
            used.1 + now.1.saturating_sub(self.phase_start.1),
        );
        (self.phase, self.periods, self.phase_start) = (self.phase + 1, PHASE_PERIODS, now);
        if self.phase < PHASES {
            return None;
        }
        let [asleep, polled] =
            self.used.map(|(operations, time)| (u128::from(operations), u128::from(time)));
        // Multiplies instead of dividing, because there may have been no operations.
        Some(if polled.1 * asleep.0 <= asleep.1 * polled.0 { self.length } else { 0 })
    }
}
