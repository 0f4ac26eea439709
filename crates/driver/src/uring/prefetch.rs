//! Prefetches the memory that the completions of a turn will access.
//!
//! A completion leads from one table to the next: the operation, its socket, its request. With ten thousand
//! connections, little of that is in the cache, so each step waits for memory, and completions that are handled one
//! after the other wait at every step. Here each step is taken for all completions before the next step. These loads do
//! not depend on each other, so the CPU executes them in parallel.

use std::hint::black_box;
use std::rc::Rc;

use crate::uring::Uring;
use crate::uring::operation::inflight::IGNORED;
use crate::uring::ring::queues::Event;

/// With fewer operations in flight than this, everything fits in the cache.
const MIN_PREFETCH: usize = 512;

impl Uring {
    /// Loads the memory to which `events` lead.
    pub(super) fn prefetch(&mut self, events: &[Event]) {
        if events.len() < 2 || self.inflight.len() < MIN_PREFETCH {
            return;
        }
        let mut tokens = std::mem::take(&mut self.prefetched);
        let named = events.iter().filter(|event| event.data != IGNORED);
        let sockets = named.filter_map(|event| Some(self.inflight.receive(event.data)?.socket));
        tokens.extend(sockets.filter_map(|socket| {
            let state = self.sockets.get(socket)?;
            black_box(Rc::strong_count(&state.fd));
            state.receiving.waiting
        }));
        for token in tokens.drain(..) {
            black_box(self.completions.pending.get(token).is_some());
        }
        self.prefetched = tokens;
    }
}
