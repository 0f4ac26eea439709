//! Stand-in for the simulation when the feature `sim` is off.

pub(crate) mod workers {
    use std::sync::Arc;

    use crate::blocking::Pool;

    pub(crate) const fn are_simulated() -> bool {
        false
    }

    pub(crate) fn enter(_: &Arc<Pool>) {
        unreachable!("only a simulation has simulated threads")
    }
}
