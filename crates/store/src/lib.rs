//! The durable state of a message broker: sessions, subscriptions, retained and queued messages. Acknowledged
//! data survives `kill -9` and power failures.
//!
//! The store is independent of sockets and packets. A broker describes changes in [`Record`]s, appends them
//! in an [`Entry`], and [`Journal::append`] completes when they are on disk. A cohort of entries is one write
//! and one sync (group commit), so all waiting operations share the cost of a sync. [`Store::open`] returns
//! the stored state as [`Recovered`].
//!
//! | file | idea |
//! |---|---|
//! | `record` | changes of the state |
//! | `entry` | records that are stored atomically |
//! | `wire` | encoding of numbers and bytes |
//! | `frame` | the journal's format: segments, batches, checksums |
//! | `index` | the live records and their positions |
//! | `replay` | recovery |
//! | `recovered` | the recovered state |
//! | `names` | file names
//! | `source` | sources of segments for recovery |
//! | `writer` | the journal's end |
//! | `cleaning` | the progress of cleaning
//! | `clean` | rewrites the live records of the oldest segment, and deletes the segment |
//! | `piece` | a piece of the oldest segment, cleaned in parts |
//! | `reserve` | disk space set aside for when the disk is full |
//! | `position` | the known end of the journal |
//! | `private` | file permissions |
//! | `journal` | the stages |
//! | `store` | opens and checks stores |
//! | `options`, `status`, `error` | options, metrics, errors |
//!
//! The format is independent of the disk: a simulation cuts the power at arbitrary moments and recovers what
//! is left (`tests/power`).

#![forbid(unsafe_code)]

mod clean;
mod cleaning;
mod entry;
mod error;
mod frame;
mod index;
mod journal;
mod names;
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
