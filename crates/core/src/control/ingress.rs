//! Ingress: the limit on the requests that a processor begins.
//!
//! Only one limit applies at a time, so the mechanisms do not interact. Only the throttle leaves input in the kernel.
//! Admission must see all requests to reject them early, and requests that exceed a budget wait in the queue of their
//! entry.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::control::credits::Credits;
use crate::stage_set::StageSet;
use crate::world::nanoseconds;

/// The maximum number of consecutive turns without input. It bounds how long new input waits.
const MAX_CLOSED_TURNS: u32 = 3;

/// The limit on the requests that a processor begins; see [`Graph::ingress`](crate::Graph::ingress).
///
/// Two further bounds, which protect memory, apply with every ingress: the [operations of a
/// processor](crate::Graph::max_operations) and the [queue of a stage](crate::StageOptions::capacity).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ingress {
    /// No limit: each turn takes all input.
    Open,
    /// Input stays in the kernel while a stage has operations queued that its last cohort left behind, but for at most
    /// three turns in a row.
    #[default]
    Throttle,
    /// [`Ingress::admit`] rejects requests while the queue delay, summed over all stages, exceeds this target. A longer
    /// target means larger cohorts under full load, and response times of up to about twice the target.
    Admit {
        /// The target of the queue delay.
        max_queue_delay: Duration,
    },
    /// Requests begin at the [entries](crate::StageOptions::entry) as long as the requests in progress fit into their
    /// half of the [cache](crate::Graph::cache_bytes). Requests that have begun run in full cohorts.
    Budget,
    /// Like `Budget`, but every stage runs only as many requests as fit, after the TUX paper (§4.5.2), which gives
    /// requests without memory the lowest priority. Each stage should declare its
    /// [objects](crate::StageOptions::object). A stage without room for a request waits while others run, for at most
    /// 10 ms.
    BudgetEveryStage,
}

impl Ingress {
    /// The target of the queue delay that suits most servers.
    pub const DEFAULT_MAX_QUEUE_DELAY: Duration = Duration::from_millis(15);

    /// Whether the limit is a budget.
    pub(crate) fn has_budget(self) -> bool {
        matches!(self, Self::Budget | Self::BudgetEveryStage)
    }
}

/// The ingress of one processor.
pub(crate) struct IngressState {
    pub(crate) limit: Ingress,
    pub(crate) admission: Rc<Admission>,
    /// Stages whose last cohort left operations in the queue.
    backlogged: Cell<StageSet>,
    /// The number of consecutive turns without input so far.
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
            backlogged: Cell::default(),
            closed: Cell::new(0),
        }
    }

    /// Records the end of a cohort of `stage`, and whether it left operations that it had found queued.
    #[inline(always)]
    pub(crate) fn cohort_ended(&self, stage: usize, has_backlog: bool) {
        let backlogged = self.backlogged.get();
        self.backlogged.set(if has_backlog {
            backlogged.with(stage)
        } else {
            backlogged.without(stage)
        });
    }

    /// Whether input stays in the kernel: a stage of `ready` has a backlog, and the limit of consecutive
    /// turns is not reached.
    #[inline(always)]
    pub(crate) fn is_closed(&self, ready: StageSet) -> bool {
        self.limit == Ingress::Throttle
            && !self.backlogged.get().intersection(ready).is_empty()
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
    interval_start: Cell<u64>,
}

impl Admission {
    fn new(target: Duration) -> Self {
        let credits = RefCell::new(Credits::new(nanoseconds(target)));
        Self { credits, interval: Cell::new(0), interval_start: Cell::new(0) }
    }

    /// Whether the credits have processed this interval.
    #[inline]
    pub(crate) fn is_current(&self, interval: u64) -> bool {
        self.interval.get() == interval
    }

    /// Processes the intervals up to the one with this number, which ended at `end` with the queue delay `wait`.
    /// Returns whether requests are now limited.
    #[cold]
    pub(crate) fn interval_over(&self, interval: u64, end: u64, wait: u64) -> bool {
        self.interval.set(interval);
        let length = end.saturating_sub(self.interval_start.replace(end));
        let mut credits = self.credits.borrow_mut();
        credits.interval_over(wait, length);
        credits.limit().is_some()
    }
}
