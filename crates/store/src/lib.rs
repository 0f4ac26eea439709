//! The durable state of a message broker: sessions, subscriptions, retained and queued messages, kept
//! so that what was acknowledged is there after `kill -9` and after a power cut.
//!
//! It knows of no sockets and no packets. A broker says what is to be kept in [`Record`]s, an
//! [`Entry`] of them at a time, and [`Journal::append`] is ready when they are on the disk. A cohort of
//! entries is one write and one sync (group commit), so that what a sync costs is shared by all who
//! wait for one. [`Store::open`] reads what is there and gives it back as [`Recovered`].
//!
//! | file | idea |
//! |---|---|
//! | `record` | what a broker wants to keep |
//! | `entry` | records that are kept together or not at all |
//! | `wire` | numbers and bytes as they stand in a record |
//! | `frame` | the journal's form: segments, batches, checksums |
//! | `index` | what is alive, and where it was put |
//! | `replay` | recovery |
//! | `recovered` | what it comes to, for a broker |
//! | `source` | where segments are read from |
//! | `writer` | the journal's end |
//! | `clean` | what is alive in the oldest segment moves to the end, and the segment goes |
//! | `reserve` | room on the disk that is set aside for the time when it is full |
//! | `position` | how far the journal is known to reach |
//! | `private` | files and directories that are their owner's alone |
//! | `piece` | what of it is read together, and cleaned a part at a time |
//! | `journal` | the stages that do it |
//! | `store` | opening and checking |
//! | `options`, `status`, `error` | what can be set, seen, and go wrong |
//!
//! The form stands apart from the disk: a simulation cuts the power at any moment and looks at what is
//! left (`tests/power.rs`).

#![forbid(unsafe_code)]

mod clean;
mod entry;
mod error;
mod frame;
mod index;
mod journal;
mod options;
mod piece;
mod position;
mod private;
mod record;
mod recovered;
mod replay;
mod reserve;
mod source;
mod status;
mod store;
mod wire;
mod writer;

pub use entry::Entry;
pub use error::{AppendError, Lost, OpenError, Torn};
#[doc(hidden)]
pub use frame::first_segment;
pub use index::Counts;
pub use journal::Journal;
pub use options::Options;
pub use record::{DeliveryId, MessageId, Phase, Record, SessionId};
pub use recovered::{Delivery, Message, Recovered, Session, Subscription};
pub use source::Source;
pub use status::Status;
pub use store::{Checked, Store, check, recover};
