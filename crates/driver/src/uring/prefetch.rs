//! What the completions of a turn are about to touch, touched for all of them together.
//!
//! A completion leads from one table to the next: what was in flight, its socket, its request. Of ten thousand
//! connections the cache has but few, so each step waits for memory, and one completion taken up after the other
//! waits as often as there are steps. Here each step is taken for all completions before the next
//! one: these loads do not depend on each other, and the processor has them under way at the same time.

use std::hint::black_box;
use std::rc::Rc;

use super::Uring;
use super::inflight::IGNORED;
use super::ring::Event;

/// Fewer operations in flight than this are all in the cache.
const MIN_PREFETCH: usize = 512;

impl Uring {
    /// Looks at what `events` lead to.
    pub(super) fn prefetch(&mut self, events: &[Event]) {
        if events.len() < 2 || self.inflight.len() < MIN_PREFETCH {
            return;
        }
        let mut tokens = std::mem::take(&mut self.ahead);
        let named = events.iter().filter(|event| event.data != IGNORED);
        let sockets = named.filter_map(|event| self.inflight.received_by(event.data));
        tokens.extend(sockets.filter_map(|socket| {
            let state = self.sockets.get(socket)?;
            black_box(Rc::strong_count(&state.fd));
            state.receiving.waiting
        }));
        for token in tokens.drain(..) {
            black_box(self.tokens.get(token).is_some());
        }
        self.ahead = tokens;
    }
}
