//! What of the broker survives its end: a wal of all that changes, kept by [`phalanx_store`].
//!
//! The broker works in memory, and never waits before it goes on. What it changes in sessions, queues and retained
//! messages it notes in the wal, in the order in which it is changed; and what it *says*, it says only when
//! all that was noted before is on the disk (output commit: Strom and Yemini, TOCS 1985). So what a crash leaves is the
//! broker as it was at some moment, and nobody knows of anything later. One commit is for all who wait for one.
//!
//! | file | what |
//! |---|---|
//! | `wal.rs` | the order of all changes, and who waits for which |
//! | `bounds.rs` | how much may wait for the disk |
//! | `disk_state.rs` | whether the disk is full or fails, and the log lines about it |
//! | `patience.rs` | how long they wait |
//! | `kept.rs` | messages, wills and sessions as they are written |
//! | `restored.rs` | what there was, put in its place again |

pub(crate) mod bounds;
pub(crate) mod disk_state;
pub(crate) mod disk_timeout;
mod encode;
pub(crate) mod recovery;
pub(crate) mod wal;

pub(crate) use bounds::MAX_COMMIT_BYTES;
pub(crate) use disk_timeout::disk_timeout;
pub(crate) use encode::{Clocks, flags, put_message, put_session};
pub(crate) use wal::{Lsn, Wal};
