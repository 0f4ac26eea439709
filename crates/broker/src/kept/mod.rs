//! Kept sessions: a node's journal has a second copy in NATS, and another node adopts it if the node is lost.
//!
//! Each journal has a stream and a lease. The stream has the batches of the journal, byte for byte, and an
//! acknowledgement waits for both. The lease shows that the node lives. If it was not renewed for a time, another node
//! takes it and appends a *seal* to the stream: each batch names the number of the message before it, so the owner's
//! next batch is refused, and it learns that it lost its sessions. The other node then makes the sessions its own
//! (`cluster/adoption/mod.rs`).
//!
//! | file | contents |
//! |---|---|
//! | `state.rs` | whether this node owns its sessions, and the other nodes' journals |
//! | `part.rs` | batches in messages of limited size |
//! | `lease.rs` | the lease of a journal |
//! | `mirror.rs` | this node's stream |
//! | `questions.rs` | which node has the session of a client |
//! | `opening.rs` | takes this node's lease and stream at the start |
//! | `fenced.rs` | the end of a node that lost its sessions, and its next start |

pub(crate) mod fenced;
pub(crate) mod lease;
pub(crate) mod mirror;
mod opening;
pub(crate) mod part;
pub(crate) mod questions;
pub(crate) mod state;
