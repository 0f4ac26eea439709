//! Cache affinity for exclusive stages with large state, after CacheSize in tr2001 §5.1: a cohort either runs here,
//! which moves the state to this processor's cache, or is sent to the processor that already has the state in its
//! cache. In the paper, the alternative is to leave the cohort to the other processor, and there is no rule for the
//! decision. The rule here is Phalanx's.
//!
//! Both choices move cache lines between processors: the state's lines, according to its declared size, or about
//! [`LINES_PER_OPERATION`] lines for each operation. The processor chooses the smaller amount. The processor that ran
//! the stage's last cohort is assumed to have the state in its cache. A shared word stores its number as a hint. A
//! wrong hint costs only time, because the stage's lock protects the state.
//!
//! Unstarted operations wait as envelopes in this processor's own ring of the stage, like those of balanced stages.
//! They are sent in a command, and the other processor accepts them immediately. An operation is therefore sent twice
//! only if the other processor's queue is full. Once an operation has started here, its cohort runs here and includes
//! the rest.
//!
//! No server of this repository uses cache affinity; `phalanx-bench spread` measures it.

use std::sync::Weak;

use crate::operation::envelope::Envelope;
use crate::panic::catch_panic;
use crate::processor::processor::Processor;
use crate::program::program::Program;

/// Cache lines that move when an operation is sent and its result returns: the slot's header and captures in
/// both directions, an entry in each of two rings with its position, and the ready mask.
const LINES_PER_OPERATION: usize = 8;

const CACHE_LINE_BYTES: usize = 64;

/// Whether sending `operations` moves fewer lines than moving the state.
fn should_send(cache_affinity: usize, operations: usize) -> bool {
    operations * LINES_PER_OPERATION < cache_affinity.div_ceil(CACHE_LINE_BYTES)
}

/// The envelopes in a command. When this is dropped, envelopes that were not accepted return to their callers.
struct Envelopes {
    envelopes: std::vec::IntoIter<Envelope>,
    program: Weak<Program>,
}

impl Drop for Envelopes {
    fn drop(&mut self) {
        for envelope in self.envelopes.by_ref() {
            match self.program.upgrade() {
                Some(program) => program.return_envelope(envelope),
                // The program is being dropped, and this command was still in one of its inboxes.
                None => crate::operation::envelope::discard(envelope),
            }
        }
    }
}

impl Processor {
    /// Sends the envelopes that wait at a stage to the processor that has its state in the cache, if that is cheaper
    /// than running them here. Returns whether they were sent.
    #[cold]
    pub(crate) fn forward_to_owner(&self, stage: usize) -> bool {
        let (ring, local) = (&self.link.mailbox().stages[stage], self.stage(stage));
        let waiting = ring.len();
        if waiting == 0 || local.queue.len() > 0 {
            return false;
        }
        let cohort = waiting.min(local.max_cohort.get());
        let declared = &self.program().stages[stage];
        let Some(target) = declared.cached_on(self.index()).filter(|target| {
            let parking = &self.program().mailboxes[*target].parking;
            // Waking a parked processor would take longer than moving some 500 lines.
            !parking.is_parked() && !parking.is_closed()
        }) else {
            return false;
        };
        if !should_send(declared.cache_affinity, cohort) {
            return false;
        }
        let envelopes: Vec<_> = std::iter::from_fn(|| ring.pop()).take(cohort).collect();
        let program = std::sync::Arc::downgrade(&self.control().0);
        let mut envelopes = Envelopes { envelopes: envelopes.into_iter(), program };
        self.command(target, move |target| {
            for envelope in envelopes.envelopes.by_ref() {
                target.accept_forwarded(stage, envelope);
            }
        });
        if ring.len() == 0 {
            self.stages.clear_ready(stage);
        }
        true
    }

    /// Accepts an envelope that another processor has forwarded. The envelope was admitted there, so if the queue here
    /// is full, it is not rejected but waits in this processor's ring. If the ring is full as well, it fails.
    fn accept_forwarded(&self, stage: usize, envelope: Envelope) {
        let has_room = self.slab().has_room() && self.stage(stage).queue.has_room();
        let ring = &self.link.mailbox().stages[stage];
        match if has_room { Err(envelope) } else { ring.push(envelope) } {
            Ok(()) => self.stages.set_ready(stage),
            Err(envelope) => catch_panic(|| _ = self.accept_remote(envelope)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_amount_is_moved() {
        assert!(!should_send(0, 1) && !should_send(512, 1), "a small state comes");
        assert!(should_send(64 * 1024, 127) && !should_send(64 * 1024, 128));
    }
}
