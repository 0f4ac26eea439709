//! The memory of a processor: operations and the objects of their requests.

use std::rc::Rc;

use crate::memory::pool::Pools;
use crate::memory::slab::Slab;
use crate::metrics::counters::ProcessorCounters;

pub(crate) struct Memory {
    slab: Slab,
    pools: Rc<Pools>,
}

impl Memory {
    pub(crate) fn new(slab: Slab) -> Self {
        Self { slab, pools: Rc::default() }
    }

    #[inline(always)]
    pub(crate) fn slab(&self) -> &Slab {
        &self.slab
    }

    #[inline(always)]
    pub(crate) fn pools(&self) -> &Rc<Pools> {
        &self.pools
    }

    /// Publishes the current use of memory.
    pub(crate) fn publish(&self, counters: &ProcessorCounters) {
        counters.operations.set(self.slab.live() as u64);
        counters.memory.set(self.slab.bytes() as u64);
        counters.overflow.set(self.slab.overflow_bytes() as u64);
        let (bytes, objects) = self.pools.figures();
        counters.pooled.set(bytes as u64);
        counters.objects.set(objects as u64);
    }
}
