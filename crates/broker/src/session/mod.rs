//! The session stage: what a client has beyond a connection. Partitioned by client identifiers, so that a
//! client finds its session on one processor, whichever its connection is on, and whoever takes it over.
//!
//! | file | what |
//! |---|---|
//! | `table.rs` | a partition: its sessions, by name and by place |
//! | `open.rs`, `close.rs` | a client comes; it leaves, its will is done, its session ends |
//! | `pending_wills.rs` | wills on their way to the router |
//! | `state.rs` | one session |
//! | `outgoing.rs` | messages to its client: queued, written, in flight, answered |
//! | `refused.rs` | counts of what cannot be kept |
//! | `operations.rs` | what connections and other stages ask of it |

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
