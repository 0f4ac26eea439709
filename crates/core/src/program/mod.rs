//! The state shared by all processors of a program, and the control handle for other threads.

pub(crate) mod busy;
pub(crate) mod control;
pub(crate) mod processor_id;
pub(crate) mod program;
