//! Optional mechanisms: each is off unless a stage or a graph asks for it.

pub(crate) mod balance;
pub(crate) mod execute;
pub(crate) mod replication;
pub(crate) mod schedule;
