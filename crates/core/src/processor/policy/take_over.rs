//! When a processor takes partitions over from sleeping ones, and when it gives them back
//! ([`crate::handle::policy::take_over`]).

use std::cell::{Cell, RefCell};

use crate::processor::processor::Processor;
use crate::program::program::Phase;

/// A processor that was not idle for this long, in nanoseconds, has no time for the work of others.
const SATURATED: u64 = 20_000_000;
/// The time after giving partitions back in which a processor takes none over, in nanoseconds.
const PAUSE: u64 = 16 * SATURATED;

/// Gives the partitions of a stage back that this processor has taken over.
pub(crate) type GiveBack = fn(&Processor, stage: u8);

#[derive(Default)]
pub(crate) struct TakeOvers {
    /// The last time at which the processor was idle.
    idle: Cell<u64>,
    /// The time from which partitions may be taken over again.
    allowed: Cell<u64>,
    /// The stages from which partitions were taken over.
    stages: RefCell<Vec<(u8, GiveBack)>>,
}

impl TakeOvers {
    /// Records that the processor was idle.
    #[inline]
    pub(crate) fn was_idle(&self, now: u64) {
        self.idle.set(now);
    }

    pub(crate) fn are_allowed(&self, now: u64) -> bool {
        now >= self.allowed.get() && !self.is_saturated(now)
    }

    pub(crate) fn taken(&self, stage: u8, give_back: GiveBack) {
        let mut stages = self.stages.borrow_mut();
        if stages.iter().all(|(other, _)| *other != stage) {
            stages.push((stage, give_back));
        }
    }

    fn is_saturated(&self, now: u64) -> bool {
        now.saturating_sub(self.idle.get()) > SATURATED
    }
}

impl Processor {
    /// Gives all partitions back that were taken over, if this processor is saturated.
    pub(crate) fn give_back(&self) {
        let (take_overs, now) = (&self.load.take_overs, self.now());
        if take_overs.stages.borrow().is_empty() || !take_overs.is_saturated(now) {
            return;
        }
        // The others may have left already, unless the program runs and this processor counts as busy.
        if !self.link.busy.is_busy() || self.program().phase() > Phase::Running {
            return;
        }
        take_overs.allowed.set(now + PAUSE);
        for (stage, give_back) in take_overs.stages.take() {
            give_back(self, stage);
        }
    }
}
