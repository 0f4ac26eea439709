//! SupervisorIdle: a supervisor that looks at the processors does not look while all of them sleep.
//!
//! A processor says when it sleeps and when it is awake, in a word of its own. The supervisor says
//! that it rests, and then looks whether all sleep; a processor that wakes says so, and then looks
//! whether the supervisor rests. All four are sequentially consistent, so at least one of them sees
//! the other: either the supervisor does not rest, or it is called. An idle program wakes for
//! nothing; a busy one pays two stores in each park, beside its system call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Alone in its line: it is written often.
#[derive(Default)]
#[repr(align(64))]
struct Asleep(AtomicBool);

/// Who sleeps.
pub(crate) struct SupervisorIdle {
    processors: Box<[Asleep]>,
    resting: AtomicBool,
}

impl SupervisorIdle {
    pub(crate) fn new(processors: usize) -> Arc<Self> {
        let processors = (0..processors).map(|_| Asleep::default()).collect();
        Arc::new(Self { processors, resting: AtomicBool::new(false) })
    }

    /// A processor is about to sleep, or is gone.
    pub(crate) fn sleeps(&self, processor: usize) {
        self.processors[processor].0.store(true, Ordering::SeqCst);
    }

    /// A processor is awake. True if it is to call the supervisor.
    pub(crate) fn is_awake(&self, processor: usize) -> bool {
        self.processors[processor].0.store(false, Ordering::SeqCst);
        self.resting.load(Ordering::SeqCst) && self.resting.swap(false, Ordering::SeqCst)
    }

    /// Whether the supervisor may rest: until it is called.
    pub(crate) fn may_rest(&self) -> bool {
        self.resting.store(true, Ordering::SeqCst);
        let all = self.processors.iter().all(|asleep| asleep.0.load(Ordering::SeqCst));
        if !all {
            self.resting.store(false, Ordering::SeqCst);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_ends_the_rest_calls() {
        let rest = SupervisorIdle::new(2);
        assert!(!rest.may_rest() && !rest.is_awake(0), "it does not rest");
        rest.sleeps(0);
        assert!(!rest.may_rest(), "one is awake");
        rest.sleeps(1);
        assert!(rest.may_rest());
        assert!(rest.is_awake(1) && !rest.is_awake(0));
        assert!(!rest.may_rest());
    }
}
