//! Durability: a write-ahead log of all changes of state, stored by [`phalanx_store`].
//!
//! The broker changes its state in memory without waiting. It appends each change of sessions, queues and retained
//! messages to the WAL, in the order of the changes. It *sends* nothing before all changes made until then are on disk
//! (output commit: Strom and Yemini, TOCS 1985). After a crash the broker has a consistent earlier state, and no client
//! has seen a later one. One commit serves all operations that wait for it.
//!
//! | file | contents |
//! |---|---|
//! | `wal.rs` | the write-ahead log: orders all changes, and waits for the disk |
//! | `lsn.rs` | positions in the log |
//! | `bounds.rs` | limits on records waiting for the disk |
//! | `disk_state.rs` | whether the disk is full or fails, and the log lines about it |
//! | `disk_timeout.rs` | the timeout for the disk |
//! | `encode.rs` | encoding of messages, wills and sessions |
//! | `recovery.rs` | restores the state at the start |
//! | `recovered_messages.rs` | decodes the stored messages on all processors |

pub(crate) mod bounds;
pub(crate) mod disk_state;
pub(crate) mod disk_timeout;
mod encode;
mod lsn;
mod recovered_messages;
pub(crate) mod recovery;
#[cfg(test)]
pub(crate) mod simulated;
pub(crate) mod wal;

pub(crate) use bounds::MAX_COMMIT_BYTES;
pub(crate) use disk_timeout::disk_timeout;
pub(crate) use encode::{Clocks, flags, put_message, put_moving, put_session};
pub(crate) use lsn::Lsn;
pub(crate) use wal::Wal;
