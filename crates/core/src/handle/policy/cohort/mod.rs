//! Cohort operations: one handler for all operations of a cohort.

pub(crate) mod handles;
pub(crate) mod items;
pub(crate) mod serial;
