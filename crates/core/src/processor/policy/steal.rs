//! Balanced stages: operations that have not started may be run by whichever processor has time
//! (BalanceLoad in tr2001 §5.1).
//!
//! An invocation on a balanced stage waits as an envelope in this processor's own ring of the stage,
//! where others can take it; its result comes home as from any other processor. The ring is in order
//! (tr2001: "This option sets the MaintainOrder flag"). Taking needs no protocol of its own: the ring
//! gives each envelope to one taker, and who has taken one is the only one to have it.
//!
//! - A processor that has fewer than [`LOW_WATERMARK`] operations of the stage waiting takes, at the
//!   beginning of its turn, 1/P of what waits at the processor that has most. It takes them up at
//!   once, so nobody takes them from it in turn, and no envelope wanders for ever.
//! - A processor that sleeps does not look. Whoever adds to a backlog that is worth it
//!   ([`MIN_BACKLOG_TO_WAKE`]) wakes one, at most once a cohort. Nothing hangs on it: the operations are in a
//!   ring that its owner runs, so a wake-up that is not sent costs time and no more.

use crate::mailbox::mailbox::Inbox;
use crate::panic::catch_panic;
use crate::processor::processor::Processor;
use crate::stage_set::StageSet;

/// Below this many operations a processor looks for others' (tr2001 §5.1: "currently 4").
const LOW_WATERMARK: usize = 4;

/// Nanoseconds of work that must wait before a sleeping processor is woken for it. Waking costs the
/// waker 7–18 µs, and the sleeper begins 12–57 µs later, in a virtual machine, where it is dearest;
/// work of less than 40 µs is done sooner by who has it. On bare metal it is a few times less.
const MIN_BACKLOG_TO_WAKE: u64 = 40_000;

/// What an operation is taken to run, in nanoseconds, while none has.
const DEFAULT_RUN_TIME: u64 = 1_000;

impl Processor {
    /// Looks for operations of others, if there are balanced stages.
    #[inline]
    pub(crate) fn balance(&self) {
        self.stages.balanced.for_each(|stage| self.balance_stage(stage));
    }

    #[cold]
    fn balance_stage(&self, stage: usize) {
        let own = self.stage(stage).queue.len() + self.link.mailbox().stages[stage].len();
        if own >= LOW_WATERMARK {
            return;
        }
        let mailboxes = &self.program().mailboxes;
        let others = (0..mailboxes.len()).filter(|at| *at != self.index());
        let waiting = others.map(|at| (mailboxes[at].stages[stage].len(), at));
        // One alone is run by its owner before it would be here.
        let Some((waiting, richest)) = waiting.max().filter(|(waiting, _)| *waiting > own.max(1))
        else {
            return;
        };
        for _ in 0..waiting.div_ceil(mailboxes.len()) {
            if !self.slab().has_room() {
                break;
            }
            let Some(envelope) = mailboxes[richest].stages[stage].pop() else { break };
            // An envelope whose session has ended is dropped: foreign code.
            catch_panic(|| _ = self.accept_remote(envelope));
        }
    }

    /// This processor's backlog of `added`, a set of stages, has grown: wakes another if it is worth
    /// it.
    #[cold]
    pub(crate) fn wake_for_backlog(&self, added: StageSet) {
        let work = added.intersection(self.stages.balanced).map(|stage| {
            let counters = &self.observe.counters.stages[stage];
            let run = counters.started.get() + counters.resumed.get();
            let each = counters.run.get().checked_div(run).unwrap_or(DEFAULT_RUN_TIME);
            self.link.mailbox().stages[stage].len() as u64 * each
        });
        if work.sum::<u64>() < MIN_BACKLOG_TO_WAKE {
            return;
        }
        let mailboxes = &self.program().mailboxes;
        let others = (1..mailboxes.len()).map(|n| (self.index() + n) % mailboxes.len());
        if let Some(asleep) = others.into_iter().find(|at| mailboxes[*at].parking.is_parked()) {
            let woke = mailboxes[asleep].mark(Inbox::Control);
            self.observe.counters.wakes_sent.add(u64::from(woke));
        }
    }
}
