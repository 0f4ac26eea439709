//! The state of a partition, and the results of its changes.
//!
//! | file | contents |
//! |---|---|
//! | `encoding.rs` | encodes messages for the client's connection |
//! | `outgoing.rs` | messages to the client: queued, written, in flight, acknowledged |
//! | `moving.rs` | the queue of a session that moves to another node |
//! | `node_capacity.rs` | the space in the queue for another node |
//! | `pending_wills.rs` | wills that the router has not accepted yet |
//! | `load.rs` | the number of messages held for clients |
//! | `directory.rs` | the partition of each session |
//! | `effects.rs` | results of changes |

pub(super) mod copies;
pub(crate) mod directory;
pub(crate) mod effects;
pub(crate) mod encoding;
pub(super) mod load;
pub(super) mod moving;
mod node_capacity;
pub(crate) mod outgoing;
pub(super) mod pending_wills;
