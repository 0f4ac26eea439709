//! The session stage: the state of clients beyond a connection. A client's session is in one partition, whichever
//! processors its connections are on.
//!
//! | file | contents |
//! |---|---|
//! | `operations.rs` | operations called by connections and other stages |
//! | `directory.rs` | the partition of each session |
//! | `by_client.rs` | operations on the session of a client identifier |
//! | `table.rs` | a partition: its sessions by client identifier and by slot |
//! | `open.rs`, `close.rs` | the beginning and end of connections and sessions |
//! | `install.rs` | adds the sessions that another node kept |
//! | `incoming.rs` | QoS 2 messages from clients |
//! | `outgoing.rs` | messages to the client: queued, written, in flight, acknowledged |
//! | `wills.rs`, `pending_wills.rs` | wills on their way to the router |
//! | `inspect.rs` | sessions for the admin pages |
//! | `load.rs` | the messages held for clients |
//! | `effects.rs` | results of operations |
//! | `rejections.rs` | counters of refusals |

mod by_client;
pub(crate) mod close;
pub(crate) mod directory;
pub(crate) mod effects;
mod incoming;
pub(crate) mod inspect;
pub(crate) mod install;
mod load;
pub(crate) mod open;
pub(crate) mod operations;
pub(crate) mod outgoing;
mod pending_wills;
mod rejections;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod wills;
