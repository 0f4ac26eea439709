//! Lets the supervisor stop polling while all processors sleep.
//!
//! Each processor stores its state in a flag of its own. The supervisor stores that it is idle and
//! then loads all flags; a processor that wakes stores its flag and then loads the supervisor's. All four
//! accesses are sequentially consistent, so at least one side sees the other: either the supervisor keeps
//! polling, or the processor wakes it. An idle program therefore never wakes up. A busy one pays two stores
//! for each park, next to a system call.
//!
//! A wake-up of the supervisor delays the request that has woken the processor. So the supervisor becomes idle only
//! after no processor was awake between two polls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// States of a processor: awake, asleep, and asleep since the supervisor's last poll.
const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const RESTING: u8 = 2;

/// A processor's flag, in a cache line of its own because it is written often.
#[derive(Default)]
#[repr(align(64))]
struct State(AtomicU8);

impl State {
    /// Whether the processor has slept since the last call.
    fn is_resting(&self) -> bool {
        let before = self.0.compare_exchange(ASLEEP, RESTING, Ordering::SeqCst, Ordering::SeqCst);
        before == Err(RESTING)
    }
}

/// The flags of all processors and of the supervisor.
pub(crate) struct SupervisorIdle {
    processors: Box<[State]>,
    supervisor: AtomicBool,
}

impl SupervisorIdle {
    pub(crate) fn new(processors: usize) -> Arc<Self> {
        let processors = (0..processors).map(|_| State::default()).collect();
        Arc::new(Self { processors, supervisor: AtomicBool::new(false) })
    }

    /// Records that a processor is about to sleep, or has exited.
    pub(crate) fn parked(&self, processor: usize) {
        self.processors[processor].0.store(ASLEEP, Ordering::SeqCst);
    }

    /// Records that a processor is awake. Returns true if it must wake the supervisor.
    pub(crate) fn awake(&self, processor: usize) -> bool {
        self.processors[processor].0.store(AWAKE, Ordering::SeqCst);
        self.supervisor.load(Ordering::SeqCst) && self.supervisor.swap(false, Ordering::SeqCst)
    }

    /// Whether the supervisor may stop polling until a processor wakes it: all have slept since the last call.
    pub(crate) fn may_idle(&self) -> bool {
        self.supervisor.store(true, Ordering::SeqCst);
        let all = self.processors.iter().fold(true, |all, state| all & state.is_resting());
        if !all {
            self.supervisor.store(false, Ordering::SeqCst);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_ends_the_rest_calls() {
        let idle = SupervisorIdle::new(2);
        assert!(!idle.may_idle() && !idle.awake(0), "it polls");
        idle.parked(0);
        assert!(!idle.may_idle(), "one is awake");
        idle.parked(1);
        assert!(!idle.may_idle(), "one was awake since the last poll");
        assert!(idle.may_idle());
        assert!(idle.awake(1) && !idle.awake(0));
        assert!(!idle.may_idle());
        for _ in 0..3 {
            idle.parked(0);
            idle.parked(1);
            assert!(!idle.may_idle(), "one was awake since the last poll");
            assert!(!idle.awake(0), "it still polls");
        }
    }
}
