//! How a run's scheduler behaves: drawn once a run, so that some seeds show what only happens when
//! one thing always goes the same way.

use fastrand::Rng;
use phalanx_driver::Config;

/// How the choices of one run are spread.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScheduleBias {
    /// The largest cohort: small ones interleave operations, large ones keep them together.
    pub(super) cohort: usize,
    /// Whether queues are shuffled before they are run from.
    pub(super) shuffles: bool,
    /// Sleeping processors are woken for no reason, so many times out of a thousand.
    pub(super) spurious: u32,
    /// A wake-up takes up to so many nanoseconds.
    pub(super) wake_delay: u64,
    /// Time jumps although there is something to do, so many times out of a thousand.
    pub(super) jumps: u32,
    /// An awake processor looks for what has come in, in place of running a stage, so often.
    pub(super) receives: u32,
    /// The stages whose calls run inside of their callers are chosen anew, so many times out of a
    /// thousand.
    pub(super) direct: u32,
    /// All books are checked after each step, and not just now and then.
    pub(super) audits: bool,
}

impl ScheduleBias {
    pub(super) fn drawn(rng: &mut Rng) -> Self {
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

/// The sizes of the drivers: small ones run out.
pub(super) fn sizes(rng: &mut Rng) -> Config {
    Config {
        entries: 8,
        buffers: [1, 2, 16][rng.usize(..3)],
        buffer_size: [5, 100, 4096][rng.usize(..3)],
    }
}
