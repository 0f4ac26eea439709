//! The memory of an operation: its slot and slot state, its id, and the envelope that takes it to another processor.

pub(crate) mod cancel_flag;
pub(crate) mod envelope;
pub(crate) mod id;
pub(crate) mod join_table;
pub(crate) mod processor_ref;
pub(crate) mod size_class;
pub(crate) mod slot;
pub(crate) mod state;
pub(crate) mod static_ref;
