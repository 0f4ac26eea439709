//! The biases of a run's scheduler. They are drawn once per run, so that some seeds explore extreme schedules.

use fastrand::Rng;
use phalanx_driver::Config;

/// Probabilities and limits of the scheduler's choices.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScheduleBias {
    /// The maximum cohort size. Small cohorts interleave operations, large ones keep them together.
    pub(super) cohort: usize,
    /// Whether operations are taken from queues in random order.
    pub(super) shuffles: bool,
    /// Probability of a spurious wake-up, per mille.
    pub(super) spurious: u32,
    /// The maximum delay of a wake-up, in nanoseconds.
    pub(super) wake_delay: u64,
    /// Probability that time advances although a processor could run, per mille.
    pub(super) jumps: u32,
    /// Probability that an awake processor polls for completions instead of running a stage, per mille.
    pub(super) receives: u32,
    /// Probability that the set of stages with direct calls changes, per mille.
    pub(super) direct: u32,
    /// Whether to check all invariants after each step instead of occasionally.
    pub(super) audits: bool,
}

impl ScheduleBias {
    /// No bias, for a scheduler that enumerates schedules.
    pub(super) const NONE: Self = Self {
        cohort: 1,
        shuffles: false,
        spurious: 0,
        wake_delay: 0,
        jumps: 0,
        receives: 0,
        direct: 0,
        audits: true,
    };

    pub(super) fn random(rng: &mut Rng) -> Self {
        Self {
            cohort: [1, 1, 2, 5, 1000][rng.usize(..5)],
            shuffles: rng.bool(),
            spurious: [0, 0, 5, 50][rng.usize(..4)],
            wake_delay: [0, 10_000, 5_000_000][rng.usize(..3)],
            jumps: [0, 1, 20][rng.usize(..3)],
            receives: [50, 200, 600][rng.usize(..3)],
            audits: rng.u8(..8) == 0,
            direct: [0, 2, 100][rng.usize(..3)],
        }
    }
}

/// Sizes of the drivers' queues and buffers that are never exhausted.
pub(super) const SIZES: Config = Config { entries: 8, buffers: 16, buffer_size: 4096 };

/// Random sizes of the drivers' queues and buffers. Small ones are exhausted sometimes.
pub(super) fn sizes(rng: &mut Rng) -> Config {
    Config {
        entries: 8,
        buffers: [1, 2, 16][rng.usize(..3)],
        buffer_size: [5, 100, 4096][rng.usize(..3)],
    }
}
