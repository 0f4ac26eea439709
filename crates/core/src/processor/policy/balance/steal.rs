//! Balanced stages: any processor with free time may run operations that have not started (BalanceLoad in
//! tr2001 §5.1).
//!
//! An invocation of a balanced stage waits as an envelope in this processor's own ring of the stage, where other
//! processors can steal it. Its result returns like that of any remote call. The ring is ordered (tr2001: "This option
//! sets the MaintainOrder flag"). Stealing needs no further protocol, because the ring gives each envelope to exactly
//! one consumer.
//!
//! - A processor with fewer than [`LOW_WATERMARK`] waiting operations of the stage steals at the beginning of its turn:
//!   it takes 1/P of the operations of the processor that has the most, where P is the number of processors. It accepts
//!   them immediately, so no envelope is stolen twice.
//! - A parked processor does not steal. A processor whose backlog grows beyond [`MIN_BACKLOG_TO_WAKE`] wakes one, at
//!   most once a cohort. A missing wake-up costs only time, because the owner runs the operations in its ring itself.
//!
//! No server of this repository uses balanced stages; `phalanx-bench spread` measures them.

use crate::panic::catch_panic;
use crate::processor::processor::Processor;
use crate::stage_set::StageSet;

/// Below this number of operations, a processor steals (tr2001 §5.1: "currently 4").
const LOW_WATERMARK: usize = 4;

/// Nanoseconds of waiting work that justify waking a parked processor. In a virtual machine, where it is most
/// expensive, waking costs the waker 7–18 µs, and the sleeper starts 12–57 µs later. The owner therefore completes less
/// than 40 µs of work sooner by itself. On bare metal, both times are a few times shorter.
const MIN_BACKLOG_TO_WAKE: u64 = 40_000;

/// Assumed nanoseconds per operation of a stage that has not run any.
const DEFAULT_RUN_TIME: u64 = 1_000;

impl Processor {
    /// Steals operations from other processors, if there are balanced stages.
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
        // The owner would run a single operation before it could arrive here.
        let Some((waiting, longest)) = waiting.max().filter(|(waiting, _)| *waiting > own.max(1))
        else {
            return;
        };
        for _ in 0..waiting.div_ceil(mailboxes.len()) {
            // The envelope was admitted by its owner, so it must not be rejected here.
            if !self.slab().has_room() || !self.stage(stage).queue.has_room() {
                break;
            }
            let Some(envelope) = mailboxes[longest].stages[stage].pop() else { break };
            // An envelope whose session has ended is dropped, which runs user code.
            catch_panic(|| _ = self.accept_remote(envelope));
        }
    }

    /// Wakes a parked processor if this processor's backlog at the stages `added` justifies it.
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
        if let Some(parked) = others.into_iter().find(|at| mailboxes[*at].parking.is_parked()) {
            let was_parked = mailboxes[parked].wake_processor();
            self.observe.counters.wakes_sent.add(u64::from(was_parked));
        }
    }
}
