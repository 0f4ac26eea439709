//! Cohort operations: one handler for all operations of a cohort.

pub(crate) mod entry;
pub(crate) mod items;
pub(crate) mod serial;
pub(crate) mod stage;
