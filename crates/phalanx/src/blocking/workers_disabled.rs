//! Stand-in for simulated threads when the feature `sim` is off.

use std::sync::Arc;

use super::pool::Pool;

pub(super) const fn are_simulated() -> bool {
    false
}

pub(super) fn enter(_: &Arc<Pool>) {
    unreachable!("only a simulation has simulated threads")
}
