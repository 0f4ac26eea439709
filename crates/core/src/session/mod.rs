//! Sessions: groups of operations that are cancelled together. Each processor has a table of session records. Records
//! of the same session on several processors share a group flag.

pub(crate) mod group;
pub(crate) mod table;
