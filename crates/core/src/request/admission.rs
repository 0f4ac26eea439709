//! Admission control: limits the requests in flight, so that admitted requests complete in time.
//!
//! An overloaded server that accepts everything completes nothing in time. A request therefore takes a credit
//! when it enters, before any work is done for it. Without a credit it is rejected immediately and cheaply.
//! `credits` computes the number of credits from the queue delay.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use crate::control::credits::Credits;
use crate::processor;
use crate::processor::processor::Processor;

/// The default of the queue delay, added over all stages, above which an [`Admission`] rejects requests.
pub const DEFAULT_MAX_QUEUE_DELAY: Duration = Duration::from_millis(15);

/// Credits for operations in flight on one processor.
///
/// Without congestion everything is admitted. When the queue delay has exceeded the target for some tens of
/// milliseconds, the number of operations in flight is limited, and the limit follows the delay. The delay is
/// added over the stages, and for each stage is the smallest of an interval, so that bursts which are served
/// before the next one do not count. Admission uses the running cohort's time: it reads no clock and calls no
/// allocator.
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
    /// The last interval that the credits have processed, and the time it ended.
    interval: Cell<u64>,
    looked: Cell<u64>,
}

/// Permission to be in flight. Dropping it returns the credit.
#[must_use = "dropping the permit returns its credit"]
pub struct Permit(Rc<Entry>);

/// The reason for a rejected request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Shed {
    /// The limit of operations in flight has been reached, since the queue delay exceeds its target.
    #[error("too many operations are in flight")]
    NoCredit,
    /// The session's deadline has passed, so the client no longer waits for the response.
    #[error("the deadline has passed")]
    DeadlinePassed,
}

impl Default for Admission {
    fn default() -> Self {
        Self::new()
    }
}

impl Admission {
    /// Makes an admission control for this processor, with the [default target](DEFAULT_MAX_QUEUE_DELAY).
    ///
    /// # Panics
    /// Outside of a processor.
    pub fn new() -> Self {
        Self::with_target(DEFAULT_MAX_QUEUE_DELAY)
    }

    /// Makes an admission control with the given target for the queue delay, added over all stages. A longer
    /// target means larger cohorts under full load, and response times of up to about twice the target.
    ///
    /// # Panics
    /// Outside of a processor.
    pub fn with_target(target: Duration) -> Self {
        let target = target.as_nanos().try_into().unwrap_or(u64::MAX);
        processor::current(|p| {
            if target < u64::MAX {
                p.load.ingress.admit();
            }
            Self(Rc::new(Entry {
                credits: RefCell::new(Credits::new(target)),
                identity: p.identity(),
                interval: Cell::new(p.load.delay.interval()),
                looked: Cell::new(p.load.delay.began()),
            }))
        })
    }

    /// Takes a credit. A rejection is counted at the stage of the running operation.
    ///
    /// # Errors
    /// [`Shed`]: respond with it, and do no other work.
    ///
    /// # Panics
    /// On a processor other than its own.
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

    /// The current limit of operations in flight; none if there is no limit.
    pub fn limit(&self) -> Option<usize> {
        self.0.credits.borrow().limit().map(|limit| limit as usize)
    }

    /// The number of permits in use.
    pub fn in_flight(&self) -> usize {
        self.0.credits.borrow().in_flight() as usize
    }

    /// Processes an interval that is over.
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
