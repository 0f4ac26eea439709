//! The parts of a request that operations serve: its admission, session, deadline and pooled objects.

pub(crate) mod admission;
pub(crate) mod deadline;
pub(crate) mod pooled;
pub(crate) mod session;
