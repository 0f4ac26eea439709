//! The parts of a processor. A part's cells are private, and only the part's methods write them. The tables, counters
//! and mechanisms of a part are types whose methods any file may call.
//!
//! The `Observe` part is in [`observe`](crate::processor::observe::part).

use std::cell::RefCell;
use std::rc::Rc;

use crate::control::ingress::IngressState;
use crate::control::take_overs::TakeOvers;
use crate::memory::pool::Pools;
use crate::memory::slab::Slab;
use crate::metrics::counters::ProcessorCounters;
use crate::operation::join_table::JoinTable;
use crate::processor::policy::execute::interleave_ring::InterleaveRing;
use crate::queue::timer_wheel::TimerWheel;
use crate::session::table::SessionTable;
use crate::stage::cohort_handler::ReplyAccounting;
use crate::stage::queue_delay::QueueDelay;
use crate::stage::tuner_state::TunerState;

pub(crate) mod current;
pub(crate) mod link;
pub(crate) mod stages;

/// The memory of a processor: operations and the objects of their requests.
pub(crate) struct Memory {
    pub(crate) slab: Slab,
    pub(crate) pools: Rc<Pools>,
}

impl Memory {
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

/// Tables of suspended work.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) sessions: SessionTable,
    pub(crate) joins: JoinTable,
    pub(crate) timers: RefCell<TimerWheel>,
}

/// The load of a processor: the measured queue delay, and the mechanisms that depend on it.
pub(crate) struct Load {
    pub(crate) delay: QueueDelay,
    pub(crate) ingress: IngressState,
    pub(crate) tuner: TunerState,
    pub(crate) take_overs: TakeOvers,
}

/// State of the running cohort; empty between cohorts.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) interleaved: InterleaveRing,
    pub(crate) replies: ReplyAccounting,
}
