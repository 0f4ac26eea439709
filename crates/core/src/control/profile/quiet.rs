//! Times with too little traffic to measure its cost. The load alone then decides, as in [`Scaling`](crate::Scaling).

/// The maximum mean load at which a number of processors is enough, in thousandths.
const TARGET_LOAD: u32 = 850;
/// The initial and the maximum time for which fewer processors must have been enough before they are chosen, in
/// nanoseconds.
const REQUIRED_TIME: (u64, u64) = (4_000_000_000, 128_000_000_000);

/// A time with too little traffic.
pub(super) struct Quiet {
    /// The time since which fewer processors would be enough.
    since: Option<u64>,
    /// The highest load since then.
    peak: u32,
    required_time: u64,
}

impl Quiet {
    pub(super) fn new() -> Self {
        Self { since: None, peak: 0, required_time: REQUIRED_TIME.0 }
    }

    /// Processes the load of all processors, in thousandths, in an interval with too little traffic. Returns a number
    /// of processors below `active` that has been enough for a while, if there is one.
    pub(super) fn sufficient_processors(
        &mut self,
        now: u64,
        load: u32,
        active: usize,
        min: usize,
    ) -> Option<usize> {
        let processors_for = |load: u32| (load.div_ceil(TARGET_LOAD) as usize).max(min);
        self.peak = self.peak.max(load);
        if processors_for(self.peak) >= active {
            (self.since, self.peak) = (Some(now), load);
            return None;
        }
        let since = *self.since.get_or_insert(now);
        (now.saturating_sub(since) >= self.required_time).then(|| {
            self.since = None;
            processors_for(std::mem::take(&mut self.peak))
        })
    }

    /// Ends the quiet time, because there is traffic again.
    pub(super) fn end(&mut self) {
        *self = Self::new();
    }

    /// Ends the quiet time, because the number of processors was too small. The next quiet time has to last longer.
    pub(super) fn interrupt(&mut self) {
        *self =
            Self { required_time: (2 * self.required_time).min(REQUIRED_TIME.1), ..Self::new() };
    }
}
