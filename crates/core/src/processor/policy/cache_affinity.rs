//! Exclusive stages whose state is large: whether a cohort runs here, and the state comes to it, or
//! goes to the processor that has the state in its cache (CacheSize in tr2001 §5.1).
//!
//! Both move cache lines from one processor to another. The state is as many as its declared size;
//! an operation is about [`LINES_PER_OPERATION`]. What is fewer is moved. The stage's *home* is the
//! processor that ran its last cohort: a hint in one shared word, since a wrong guess costs time and
//! nothing else; the stage's lock is what keeps the state whole.
//!
//! Unstarted operations wait as envelopes in this processor's own ring of the stage, as those of balanced
//! stages do. They are sent by an order, and the home takes them up at once, so none is sent twice.
//! Once one has started here, its cohort runs here and takes the rest along.

use std::sync::Weak;

use crate::operation::envelope::Envelope;
use crate::panic::catch_panic;
use crate::processor::processor::Processor;
use crate::program::program::Program;

/// Cache lines that move when an operation is sent and its result comes back: the slot's header and
/// captures there and again back, a cell in each of two rings with its position, the marks.
const LINES_PER_OPERATION: usize = 8;

const CACHE_LINE_BYTES: usize = 64;

/// Whether `operations` are less to move than the state.
fn should_send(cache_affinity: usize, operations: usize) -> bool {
    operations * LINES_PER_OPERATION < cache_affinity.div_ceil(CACHE_LINE_BYTES)
}

/// Envelopes in an order. Those that nobody has taken up are left to the program.
struct Envelopes {
    envelopes: std::vec::IntoIter<Envelope>,
    program: Weak<Program>,
}

impl Drop for Envelopes {
    fn drop(&mut self) {
        for envelope in self.envelopes.by_ref() {
            match self.program.upgrade() {
                Some(program) => program.keep_envelope(envelope),
                // The program is at its end, and this is one of its own inboxes.
                None => crate::operation::envelope::discard(envelope),
            }
        }
    }
}

impl Processor {
    /// Sends what waits at a stage to the stage's home, if that is better than to run it here. True
    /// if it was sent.
    #[cold]
    pub(crate) fn forward_to_owner(&self, stage: usize) -> bool {
        let (ring, local) = (&self.link.mailbox().stages[stage], self.stage(stage));
        let waiting = ring.len();
        if waiting == 0 || local.queue.len() > 0 {
            return false;
        }
        let cohort = waiting.min(local.max_cohort.get());
        let declared = &self.program().stages[stage];
        let Some(home) = declared.home(self.index()).filter(|home| {
            // To wake it would take longer than to move some 500 lines.
            !self.program().mailboxes[*home].parking.is_parked()
        }) else {
            return false;
        };
        if !should_send(declared.cache_affinity, cohort) {
            return false;
        }
        let envelopes: Vec<_> = std::iter::from_fn(|| ring.pop()).take(cohort).collect();
        let program = std::sync::Arc::downgrade(&self.control().0);
        let mut envelopes = Envelopes { envelopes: envelopes.into_iter(), program };
        self.command(home, move |home| {
            for envelope in envelopes.envelopes.by_ref() {
                catch_panic(|| _ = home.accept_remote(envelope));
            }
        });
        if ring.len() == 0 {
            self.stages.clear_ready(stage);
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_less_is_moved() {
        assert!(!should_send(0, 1) && !should_send(512, 1), "a small state comes");
        assert!(should_send(64 * 1024, 127) && !should_send(64 * 1024, 128));
    }
}
