//! Constructors of states that are rebuilt after a panic.

use crate::processor;
use crate::state::rebuildable::Remake;

/// A stage's constructor for a state that a panic may have torn. Counts its calls.
pub(crate) fn counted<S>(stage: u8, make: impl Fn() -> S + Send + Sync + 'static) -> Remake<S> {
    Box::new(move || {
        let state = make();
        processor::try_current(|p| p.stage_counters(stage).state_rebuilds.add(1));
        state
    })
}
