//! Ingress: the limit on the requests that a processor begins.
//!
//! One limit applies at a time, so the mechanisms need no exceptions for each other. Only the throttle leaves
//! input in the kernel. An admission must see all requests to reject them early, and requests that exceed a
//! budget wait in the queue of their entry.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::control::credits::Credits;
use crate::stage_set::StageSet;
use crate::world::nanoseconds;

/// The maximum number of consecutive turns without input. It bounds how long new input waits.
const MAX_CLOSED_TURNS: u32 = 3;

/// The limit on the requests that a processor begins: see [`Graph::ingress`](crate::Graph::ingress).
///
/// Two further bounds protect memory with every ingress: the
/// [operations of a processor](crate::Graph::max_operations) and the
/// [queue of a stage](crate::StageOptions::capacity).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ingress {
    /// No limit: each turn takes all input.
    Open,
    /// Input stays in the kernel while a stage has more operations queued than its last cohort took, for at most
    /// three turns in a row.
    #[default]
    Throttle,
    /// [`Ingress::admit`] rejects requests while the queue delay, added over all stages, exceeds this target. A
    /// longer target means larger cohorts under full load, and response times of up to about twice the target.
    Admit {
        /// The target of the queue delay.
        max_queue_delay: Duration,
    },
    /// Requests begin at the [entries](crate::StageOptions::entry) while those in progress fit the
    /// [cache](crate::Graph::cache_bytes). Requests that have begun run in full cohorts.
    Budget,
    /// Like `Budget`, and every stage runs as many requests as fit, after the TUX paper (§4.5.2), which gives
    /// requests without memory the lowest priority. This needs the [objects](crate::StageOptions::object) of each
    /// stage. A stage with room for none waits while others run, at most 10 ms.
    BudgetEveryStage,
}

impl Ingress {
    /// The target of the queue delay that suits most servers.
    pub const DEFAULT_MAX_QUEUE_DELAY: Duration = Duration::from_millis(15);

    /// Whether requests begin by a budget.
    pub(crate) fn has_budget(self) -> bool {
        matches!(self, Self::Budget | Self::BudgetEveryStage)
    }
}

/// The ingress of one processor.
pub(crate) struct IngressState {
    pub(crate) limit: Ingress,
    pub(crate) admission: Rc<Admission>,
    /// Stages whose last cohort left operations in the queue.
    behind: Cell<StageSet>,
    /// Consecutive turns without input so far.
    closed: Cell<u32>,
}

impl IngressState {
    pub(crate) fn new(limit: Ingress) -> Self {
        // Without a target, the number of credits has no limit.
        let target = match limit {
            Ingress::Admit { max_queue_delay } => max_queue_delay,
            _ => Duration::MAX,
        };
        Self {
            limit,
            admission: Rc::new(Admission::new(target)),
            behind: Cell::default(),
            closed: Cell::new(0),
        }
    }

    /// Records the end of a cohort of `stage`, and whether it left operations that it had found queued.
    #[inline(always)]
    pub(crate) fn cohort_ended(&self, stage: usize, left: bool) {
        let behind = self.behind.get();
        self.behind.set(if left { behind.with(stage) } else { behind.without(stage) });
    }

    /// Whether input stays in the kernel: a stage of `ready` has a backlog, and the limit of consecutive
    /// turns is not reached.
    #[inline(always)]
    pub(crate) fn is_closed(&self, ready: StageSet) -> bool {
        self.limit == Ingress::Throttle
            && !self.behind.get().intersection(ready).is_empty()
            && self.closed.get() < MAX_CLOSED_TURNS
    }

    /// Begins a turn. Returns whether it reaps input.
    #[inline(always)]
    pub(crate) fn begin_turn(&self, ready: StageSet) -> bool {
        let closed = self.is_closed(ready);
        self.closed.set(if closed { self.closed.get() + 1 } else { 0 });
        !closed
    }
}

/// The credits of a processor's requests.
pub(crate) struct Admission {
    pub(crate) credits: RefCell<Credits>,
    /// The last interval that the credits have processed, and the time it ended.
    interval: Cell<u64>,
    ended: Cell<u64>,
}

impl Admission {
    fn new(target: Duration) -> Self {
        let credits = RefCell::new(Credits::new(nanoseconds(target)));
        Self { credits, interval: Cell::new(0), ended: Cell::new(0) }
    }

    /// Whether the credits have processed this interval.
    #[inline]
    pub(crate) fn is_current(&self, interval: u64) -> bool {
        self.interval.get() == interval
    }

    /// Processes the intervals up to the one of this number, which ended at `end` with the queue delay `wait`. Returns
    /// whether requests are limited now.
    #[cold]
    pub(crate) fn interval_over(&self, interval: u64, end: u64, wait: u64) -> bool {
        self.interval.set(interval);
        let length = end.saturating_sub(self.ended.replace(end));
        let mut credits = self.credits.borrow_mut();
        credits.interval_over(wait, length);
        credits.limit().is_some()
    }
}
