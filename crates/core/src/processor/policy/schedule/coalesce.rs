//! Waiting for several completions after a turn that left nothing to run.

use crate::processor::processor::Processor;
use crate::world::World;

impl Processor {
    /// Waits as the world plans, and counts the time as sleep: a processor that waits has time for more work.
    #[inline]
    pub(crate) fn coalesce(&self, world: &impl World) {
        let waited = world.coalesce(self.until_timer(self.now()));
        if waited > 0 {
            self.observe.counters.record_unpark(waited);
            self.load.take_overs.was_idle(self.now());
        }
    }
}
