//! The session stage: client state that outlives a connection. A client's session stays in one partition, whichever
//! processors its connections are on.
//!
//! Modules import only from modules further down in the table.
//!
//! | folder | contents |
//! |---|---|
//! | `operations` | operations called by connections and other stages |
//! | `partition` | a partition: its sessions by client identifier and by slot, and all changes of them |
//! | `state` | parts of a partition: outgoing messages, pending wills, its load; the directory of all partitions |

pub(crate) mod operations;
pub(crate) mod partition;
pub(crate) mod state;
#[cfg(test)]
mod tests;
