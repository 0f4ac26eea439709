//! Reports of a program's operation: panics, operation types and their sizes, running operations, traces.

pub(crate) mod byte_table;
pub(crate) mod error;
pub(crate) mod note_type;
pub(crate) mod part;
pub(crate) mod profile;
pub(crate) mod recording;
pub(crate) mod report;
pub(crate) mod running;
pub(crate) mod trace;
