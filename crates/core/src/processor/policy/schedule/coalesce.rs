//! Waiting for several completions after a turn that left nothing to run.

use crate::processor::processor::Processor;
use crate::world::World;

impl Processor {
    /// Waits for as long as the world decides, and counts the time as sleep, because the processor could do more work
    /// in it.
    #[inline]
    pub(crate) fn coalesce(&self, world: &impl World) {
        let waited = world.coalesce(self.until_timer(self.now()));
        if waited > 0 {
            self.observe.counters.record_unpark(waited);
            self.load.take_overs.was_idle(self.now());
        }
    }
}
