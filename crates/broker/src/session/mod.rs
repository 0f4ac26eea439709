//! The session stage: the state of clients beyond a connection. It is partitioned by client identifier, so
//! that a client's session is found on one processor, whichever processors its connections are on.
//!
//! | file | what |
//! |---|---|
//! | `table.rs` | a partition: its sessions by client identifier and by slot |
//! | `open.rs`, `close.rs` | the beginning and end of connections and sessions; wills |
//! | `pending_wills.rs` | wills on their way to the router |
//! | `qos2.rs` | QoS 2 messages from clients |
//! | `state.rs` | one session |
//! | `outgoing.rs` | messages to the client: queued, written, in flight, acknowledged |
//! | `rejections.rs` | counters of refusals |
//! | `operations.rs` | operations called by connections and other stages |

pub(crate) mod close;
pub(crate) mod key;
pub(crate) mod open;
mod operations;
pub(crate) mod outgoing;
pub(crate) mod pending_wills;
pub(crate) mod qos2;
mod rejections;
pub(crate) mod state;
pub(crate) mod table;
#[cfg(test)]
mod tests;

pub(crate) use operations::{Pulled, RETRY_DELAY, Routes, SessionStage};
