//! The protocol by which the supervisor stops polling while all processors sleep.
//!
//! A processor that has to wake the supervisor spends a system call and often a context switch, which delays the
//! request that woke the processor by 100 µs. So the supervisor does not stop polling immediately: while all processors
//! are parked, it polls at growing intervals, up to [`MAX_POLL_INTERVAL`], and stops after [`REST`]. After that, an
//! idle program has no wake-ups at all.
//!
//! Each processor stores its state in its own flag. The supervisor stores that it is idle and then loads all flags; a
//! processor that wakes stores its flag and then loads the supervisor's. All four accesses are sequentially consistent,
//! so at least one side sees the store of the other: either the supervisor keeps polling, or the processor wakes it. In
//! a busy program, this costs two stores per park, which needs a system call anyway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// The longest time between two polls.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// After this time without an awake processor, the supervisor waits to be woken.
const REST: Duration = Duration::from_secs(60);

/// States of a processor: awake, asleep, and asleep since the supervisor's last poll.
const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const RESTING: u8 = 2;

/// A processor's flag, in its own cache line because it is written often.
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
    pub(crate) fn note_awake(&self, processor: usize) -> bool {
        self.processors[processor].0.store(AWAKE, Ordering::SeqCst);
        self.supervisor.load(Ordering::SeqCst) && self.supervisor.swap(false, Ordering::SeqCst)
    }

    /// Whether all processors have slept since the last call.
    fn are_resting(&self) -> bool {
        self.processors.iter().fold(true, |all, state| all & state.is_resting())
    }

    /// Whether the supervisor may stop polling until a processor wakes it: all have slept since the last call.
    fn may_idle(&self) -> bool {
        self.supervisor.store(true, Ordering::SeqCst);
        let all = self.are_resting();
        if !all {
            self.supervisor.store(false, Ordering::SeqCst);
        }
        all
    }
}

/// The supervisor's next poll.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextPoll {
    /// As planned, because some processor was awake since the last poll.
    Planned,
    /// At this time, because all processors sleep.
    At(Instant),
    /// Not before a processor wakes the supervisor.
    Woken,
}

/// The supervisor's polls.
pub(crate) struct Polls {
    flags: Arc<SupervisorIdle>,
    /// The time at which all processors were found asleep, if they have slept since then.
    resting_since: Option<Instant>,
}

impl Polls {
    pub(crate) fn new(flags: Arc<SupervisorIdle>) -> Self {
        Self { flags, resting_since: None }
    }

    /// Called at each poll.
    pub(crate) fn next(&mut self, now: Instant) -> NextPoll {
        if !self.flags.are_resting() {
            self.resting_since = None;
            return NextPoll::Planned;
        }
        let idle_time = now - *self.resting_since.get_or_insert(now);
        if idle_time < REST {
            return NextPoll::At(now + idle_time.min(MAX_POLL_INTERVAL));
        }
        if self.flags.may_idle() { NextPoll::Woken } else { NextPoll::Planned }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_supervisor_polls_less_and_less_often_and_then_waits() {
        let flags = SupervisorIdle::new(2);
        let mut polls = Polls::new(flags.clone());
        let start = Instant::now();
        assert_eq!(polls.next(start), NextPoll::Planned, "both are awake");
        flags.parked(0);
        assert_eq!(polls.next(start), NextPoll::Planned, "one is awake");
        flags.parked(1);
        assert_eq!(polls.next(start), NextPoll::Planned, "one was awake since the last poll");
        assert_eq!(polls.next(start), NextPoll::At(start));
        let later = start + SECOND / 4;
        assert_eq!(polls.next(later), NextPoll::At(later + SECOND / 4));
        let later = start + 2 * SECOND;
        assert_eq!(polls.next(later), NextPoll::At(later + MAX_POLL_INTERVAL));
        assert!(!flags.note_awake(1), "the supervisor polls");
        flags.parked(1);
        let later = start + REST;
        assert_eq!(polls.next(later), NextPoll::Planned, "one was awake since the last poll");
        assert_eq!(polls.next(later), NextPoll::At(later));
        assert_eq!(polls.next(later + REST), NextPoll::Woken);
        assert!(flags.note_awake(1) && !flags.note_awake(0), "the first one wakes the supervisor");
        assert_eq!(polls.next(later + REST), NextPoll::Planned);
    }
}
