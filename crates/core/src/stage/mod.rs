//! A stage: its declaration, which all processors share, and its part on one processor.

pub(crate) mod capacity;
pub(crate) mod cohort_handler;
pub(crate) mod declaration;
pub(crate) mod inline_state;
pub(crate) mod key;
pub(crate) mod limits;
pub(crate) mod local;
pub(crate) mod queue_delay;
pub(crate) mod settings;
pub(crate) mod starvation_guard;
pub(crate) mod thresholds;
pub(crate) mod tuner_state;
