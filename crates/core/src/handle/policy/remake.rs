//! Constructors of states that are rebuilt after a panic.

use crate::processor;
use crate::state::rebuildable::Remake;

/// Wraps a stage's constructor for states that a panic may have left inconsistent, and counts its calls.
pub(crate) fn counted<S>(stage: u8, make: impl Fn() -> S + Send + Sync + 'static) -> Remake<S> {
    Box::new(move || {
        let state = make();
        processor::try_current(|p| p.stage_counters(stage).state_rebuilds.add(1));
        state
    })
}
