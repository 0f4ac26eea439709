//! Admission at the entry: who begins, so that those who have begun come to an end in time.
//!
//! A server that takes on more than it can do does nothing in time. So what comes in asks for a
//! credit where it enters, before any work was put into it; without one it is refused at once, and
//! cheaply. How many credits there are is the law in `credits`, and what it looks at `congestion`.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use crate::control::credits::Credits;
use crate::processor;
use crate::processor::processor::Processor;

/// Work may wait for so long, over all stages, before anything is refused, unless an [`Admission`]
/// is told otherwise.
pub const DEFAULT_MAX_QUEUE_DELAY: Duration = Duration::from_millis(15);

/// Credits for operations in flight on one processor.
///
/// Without congestion everything is admitted. When work has waited for longer than the target for
/// some tens of milliseconds (added over the stages, and of each the smallest wait of an interval, so
/// that bursts which are served before the next one do not count) the number of operations in flight
/// is limited, and the limit follows the wait. It is looked at with the running cohort's
/// time: admitting reads no clock and calls no allocator.
///
/// ```
/// use phalanx_core::{Admission, Graph};
///
/// let processor = Graph::new().build(1).remove(0).build(Box::new(|| ()));
/// processor.enter(|| {
///     let entry = Admission::new();
///     let permit = entry.admit().expect("nothing waits here");
///     assert_eq!(entry.in_flight(), 1);
///     drop(permit); // with the answer
///     assert_eq!(entry.in_flight(), 0);
/// });
/// ```
///
/// ```compile_fail
/// fn leaves_its_thread(entry: phalanx_core::Admission) {
///     std::thread::spawn(move || drop(entry)); // credits are of one processor
/// }
/// ```
#[derive(Clone)]
pub struct Admission(Rc<Entry>);

struct Entry {
    credits: RefCell<Credits>,
    identity: u32,
    /// The interval that the credits know of, and when it ended.
    interval: Cell<u64>,
    looked: Cell<u64>,
}

/// Leave to be in flight. Its credit goes back when it is dropped.
#[must_use = "a permit that is dropped admits somebody else"]
pub struct Permit(Rc<Entry>);

/// Why something was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Shed {
    /// As much is in flight as may be, since work waits for too long already.
    #[error("too much is under way")]
    NoCredit,
    /// The session's deadline has passed: nobody waits for the answer any more.
    #[error("the deadline has passed")]
    DeadlinePassed,
}

impl Default for Admission {
    fn default() -> Self {
        Self::new()
    }
}

impl Admission {
    /// An entry on this processor, with the [default target](DEFAULT_MAX_QUEUE_DELAY).
    ///
    /// # Panics
    /// Outside of a processor.
    pub fn new() -> Self {
        Self::with_target(DEFAULT_MAX_QUEUE_DELAY)
    }

    /// An entry where work may wait for `target`, over all stages. The longer, the larger the cohorts
    /// that a full server works in, and the longer its answers take: up to about twice as long.
    ///
    /// # Panics
    /// Outside of a processor.
    pub fn with_target(target: Duration) -> Self {
        let target = target.as_nanos().try_into().unwrap_or(u64::MAX);
        processor::current(|p| {
            if target < u64::MAX {
                p.load.delay.note_admission();
            }
            Self(Rc::new(Entry {
                credits: RefCell::new(Credits::new(target)),
                identity: p.identity(),
                interval: Cell::new(p.load.delay.interval()),
                looked: Cell::new(p.load.delay.began()),
            }))
        })
    }

    /// Asks for a credit. A refusal is counted with the stage of the running operation.
    ///
    /// # Errors
    /// [`Shed`]: answer that, and do nothing else.
    ///
    /// # Panics
    /// On another processor than its own.
    #[inline]
    pub fn admit(&self) -> Result<Permit, Shed> {
        processor::current(|p| {
            assert_eq!(p.identity(), self.0.identity, "an entry belongs to one processor");
            if p.load.delay.interval() != self.0.interval.get() {
                self.look(p);
            }
            if p.waiting.sessions.is_expired(p.waiting.sessions.current(), p.now()) {
                return Err(shed(p, Shed::DeadlinePassed));
            }
            match self.0.credits.borrow_mut().take() {
                true => Ok(Permit(self.0.clone())),
                false => Err(shed(p, Shed::NoCredit)),
            }
        })
    }

    /// The most that may be in flight at present; none if there is no limit.
    pub fn limit(&self) -> Option<usize> {
        self.0.credits.borrow().limit().map(|limit| limit as usize)
    }

    /// How many permits there are.
    pub fn in_flight(&self) -> usize {
        self.0.credits.borrow().in_flight() as usize
    }

    /// An interval is over.
    #[cold]
    fn look(&self, processor: &Processor) {
        let congestion = &processor.load.delay;
        self.0.interval.set(congestion.interval());
        let length = congestion.began().saturating_sub(self.0.looked.replace(congestion.began()));
        let mut credits = self.0.credits.borrow_mut();
        credits.interval_over(congestion.wait(), length);
        if credits.limit().is_some() {
            congestion.note_limit();
        }
    }
}

#[cold]
fn shed(processor: &Processor, why: Shed) -> Shed {
    if let Some(slot) = processor.current.running() {
        let counters = processor.stage_counters(slot.stage.get());
        match why {
            Shed::NoCredit => counters.shed_admission.add(1),
            Shed::DeadlinePassed => counters.shed_deadline.add(1),
        }
    }
    why
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (limit, in_flight) = (self.limit(), self.in_flight());
        f.debug_struct("Admission").field("limit", &limit).field("in_flight", &in_flight).finish()
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit")
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        self.0.credits.borrow_mut().give();
    }
}
