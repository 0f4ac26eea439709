//! The session stage: the state of clients beyond a connection. A client's session is in one partition, whichever
//! processors its connections are on.
//!
//! Imports go from the top of the table to its end only.
//!
//! | folder | contents |
//! |---|---|
//! | `operations` | operations called by connections and other stages |
//! | `partition` | a partition: its sessions by client identifier and by slot, and all changes of them |
//! | `state` | what a partition consists of: messages to clients, wills on their way, its load; the directory of all partitions |

pub(crate) mod operations;
pub(crate) mod partition;
pub(crate) mod state;
#[cfg(test)]
mod tests;
