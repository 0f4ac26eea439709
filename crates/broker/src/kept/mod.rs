//! Kept sessions: a node's journal has a second copy in NATS. If the node is lost, another node adopts its sessions.
//!
//! Each journal has a stream and a lease. The stream has the batches of the journal, byte for byte; acknowledgements wait
//! for the disk and for the stream. The lease shows that the node is alive. If it is not renewed within the timeout,
//! another node takes it and appends a *seal* to the stream. Each batch names the number of the preceding message. So the
//! owner's next batch is refused, and the owner learns that it has lost its sessions. The other node then adds the
//! sessions to its own (`cluster/adoption/mod.rs`).
//!
//! | file | contents |
//! |---|---|
//! | `state.rs` | whether this node owns its sessions, and the other nodes' journals |
//! | `part.rs` | divides batches into messages of limited size |
//! | `lease.rs` | the lease of a journal |
//! | `mirror.rs` | this node's stream |
//! | `questions.rs` | questions to other nodes about the location of a client's session |
//! | `opening.rs` | takes this node's lease and stream at the start |
//! | `fenced.rs` | sets aside the journal of a node that has lost its sessions |

pub(crate) mod fenced;
pub(crate) mod lease;
pub(crate) mod mirror;
mod opening;
pub(crate) mod part;
pub(crate) mod questions;
pub(crate) mod state;
