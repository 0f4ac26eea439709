//! Leak check: finding resources that must have been released when a program is idle.
//!
//! *Stuck* means waiting forever, or a reply that nobody awaits (Fournet, Hoare, Rajamani, Rehof: Stuck-Free
//! Conformance, 2004). Every leak in an idle program is one of these two cases.

use std::fmt;

use crate::operation::state::{AWAITED, CANCELLED, QUEUED, SlotState};
use crate::processor::operation::waker;
use crate::processor::processor::Processor;
use crate::session::table::{Resource, SessionRecord, SessionTable};

/// A resource that is left in a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leak {
    /// An operation, or a result that was not taken.
    Operation {
        /// Its stage.
        stage: &'static str,
        /// Its state: `unstarted`, `suspended`, `away` (on another processor), `done`, `failed` or `fetched`.
        state: &'static str,
        /// Whether it is queued.
        queued: bool,
        /// Whether it has been cancelled.
        ended: bool,
        /// The stage of the operation that awaits it, if any.
        awaited_by: Option<&'static str>,
    },
    /// Invocations from other processors that were not accepted.
    Invocations {
        /// The stage that they invoke.
        stage: &'static str,
        /// Their number.
        count: usize,
    },
    /// Replies from other processors that were not received.
    Replies(usize),
    /// Commands from other processors that were not run, and replies that are still expected from other processors.
    Commands(usize),
    /// Invocations and replies in the outbox.
    Outbox(usize),
    /// A session that is not empty.
    Session {
        /// Its operations.
        operations: usize,
        /// The number of its resources that are still in use.
        guards: usize,
        /// The number of waiters for its end.
        waiting: usize,
    },
    /// Joins that wait for children.
    Joins(usize),
    /// Timers that are armed.
    Timers(usize),
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operation { stage, state, queued, ended, awaited_by } => {
                write!(f, "an operation of {stage:?}, {state}")?;
                if *queued {
                    write!(f, ", queued")?;
                }
                if *ended {
                    write!(f, ", cancelled")?;
                }
                match awaited_by {
                    Some(parent) => write!(f, ", awaited by {parent:?}"),
                    None => write!(f, ", awaited by nobody"),
                }
            }
            Self::Invocations { stage, count } => {
                write!(f, "{count} invocations of {stage:?} from other processors")
            }
            Self::Replies(count) => write!(f, "{count} replies from other processors"),
            Self::Commands(count) => write!(f, "{count} commands or awaited replies"),
            Self::Outbox(count) => write!(f, "{count} envelopes for other processors"),
            Self::Session { operations, guards, waiting } => write!(
                f,
                "a session with {operations} operations, {guards} guards and {waiting} waiters for its end"
            ),
            Self::Joins(count) => write!(f, "{count} joins that wait for children"),
            Self::Timers(count) => write!(f, "{count} timers"),
        }
    }
}

impl Processor {
    /// All resources that are left on this processor; empty if all work is done and nothing leaked. Visits every slot,
    /// so it is intended for tests and simulations.
    pub fn leaks(&self) -> Vec<Leak> {
        let mut leaks = Vec::new();
        for slot in self.slab().slots().filter(|slot| slot.state.get() != SlotState::Free) {
            let waiter = slot.waiter.take();
            let parent = waiter.as_ref().and_then(|waiter| waker::id_of(waiter, self));
            slot.waiter.set(waiter);
            leaks.push(Leak::Operation {
                stage: self.stage_name(slot.stage.get()),
                state: state(slot.state.get()),
                queued: slot.has(QUEUED),
                ended: slot.has(CANCELLED),
                awaited_by: parent
                    .and_then(|id| self.slab().get(id.index()))
                    .map(|parent| self.stage_name(parent.stage.get()))
                    .or(slot.has(AWAITED).then_some("someone")),
            });
        }
        for (stage, ring) in self.link.mailbox().stages.iter().enumerate() {
            if ring.len() > 0 {
                let stage = self.stage_name(stage as u8);
                leaks.push(Leak::Invocations { stage, count: ring.len() });
            }
        }
        let mut counted = |count: usize, remnant: fn(usize) -> Leak| {
            if count > 0 {
                leaks.push(remnant(count));
            }
        };
        counted(self.link.mailbox().replies.len(), Leak::Replies);
        counted(
            self.link.mailbox().commands_waiting() + usize::from(self.link.requests.any()),
            Leak::Commands,
        );
        counted(self.link.outbound(), Leak::Outbox);
        counted(self.waiting.joins.waiting(), Leak::Joins);
        counted(self.waiting.timers.borrow().armed(), Leak::Timers);
        leaks.extend(sessions(&self.waiting.sessions));
        leaks
    }

    /// Checks that the scheduler's redundant data is consistent. Call it between two steps.
    ///
    /// # Errors
    /// A description of the violated invariant: a bug in the scheduler, such as an operation that is queued
    /// twice and would run twice.
    pub fn check_invariants(&self) -> Result<(), String> {
        let (mut live, mut marked, mut index) = (0, 0, 0);
        // A plain loop, because unoptimised simulations spent a tenth of their time in iterator adaptors here.
        while let Some(slot) = self.slab().get(index) {
            live += usize::from(slot.state.get() != SlotState::Free);
            marked += usize::from(slot.has(QUEUED));
            index += 1;
        }
        if live != self.live() {
            return Err(format!("{live} slots are in use, but the counter says {}", self.live()));
        }
        let queued: Result<usize, _> = (0..self.stages.len()).map(|n| self.check_queue(n)).sum();
        let queued = queued?;
        if queued == marked {
            Ok(())
        } else {
            Err(format!("{marked} operations are marked as queued, but {queued} are in queues"))
        }
    }

    /// Checks the queue of one stage. Returns its length.
    ///
    /// # Errors
    /// The errors of [`Processor::check_invariants`].
    ///
    /// # Panics
    /// If there is no such stage.
    pub fn check_queue(&self, stage: usize) -> Result<usize, String> {
        let (name, queue) = (self.stage_name(stage as u8), &self.stages[stage].queue);
        // One flag per slot, because a hash set took most of the time of simulations.
        let slots = if queue.len() == 0 { 0 } else { self.slab().capacity() as usize };
        let mut seen = vec![false; slots];
        for slot in (0..queue.len()).filter_map(|n| queue.get(n)) {
            if std::mem::replace(&mut seen[slot.id.get().index() as usize], true) {
                return Err(format!("an operation of {name:?} is queued twice"));
            }
            let runnable = matches!(slot.state.get(), SlotState::Unstarted | SlotState::Started);
            if !runnable || !slot.has(QUEUED) || usize::from(slot.stage.get()) != stage {
                let state = state(slot.state.get());
                return Err(format!("an operation queued at {name:?} cannot run: it is {state}"));
            }
        }
        let handler = &self.stages[stage].parts.handler;
        let is_busy = handler.as_ref().is_some_and(|handler| handler.is_busy());
        if queue.len() > 0 && !self.stages.ready().contains(stage) && !is_busy {
            Err(format!("stage {name:?} has queued operations but is not marked as ready"))
        } else {
            Ok(queue.len())
        }
    }
}

fn state(state: SlotState) -> &'static str {
    match state {
        SlotState::Free => "gone",
        SlotState::Unstarted => "unstarted",
        SlotState::Started => "suspended",
        SlotState::InTransit => "away",
        SlotState::Taken => "waiting for its reply",
        SlotState::Done => "done",
        SlotState::Failed => "failed",
        SlotState::Empty => "fetched",
    }
}

/// The sessions that still have a resource, or that have no handle.
fn sessions(table: &SessionTable) -> Vec<Leak> {
    let leak = |record: &SessionRecord| {
        let unconfirmed = record.count(Resource::UnconfirmedProcessor);
        let waiting = record.wakers.len() + unconfirmed + record.replies.len();
        let (operations, guards) = (record.operations, record.count(Resource::Guard));
        let is_left = operations + guards + waiting > 0 || record.count(Resource::Handle) == 0;
        is_left.then_some(Leak::Session { operations, guards, waiting })
    };
    table.records.records.borrow().iter().flatten().filter_map(leak).collect()
}
