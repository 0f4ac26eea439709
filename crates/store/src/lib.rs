//! The durable state of a message broker: sessions, subscriptions, retained and queued messages. Acknowledged data
//! survives `kill -9` and power failures.
//!
//! The store does not depend on sockets or packets. A broker describes changes as [`Record`]s, puts them into an
//! [`Entry`], and appends the entry: [`Journal::append`] completes when it is on disk. A cohort of entries takes one
//! write and one sync (group commit), so all waiting operations share the cost of a sync. [`Store::open`] returns the
//! stored state as [`Recovered`].
//!
//! | file | idea |
//! |---|---|
//! | `format/record` | changes of the state |
//! | `format/entry` | records that are stored atomically |
//! | `format/wire` | encoding of numbers and bytes |
//! | `format/frame` | the journal's format: segments, batches, checksums |
//! | `directory/names` | file names |
//! | `directory/private` | file permissions |
//! | `directory/reserve` | disk space set aside for when the disk is full |
//! | `directory/source` | sources of segments for recovery |
//! | `index` | the live records and their positions |
//! | `recovery/segments` | reads and verifies segments |
//! | `recovery/replay` | recovery |
//! | `recovery/live` | decodes the live records on all processors |
//! | `recovery/recovered` | the recovered state |
//! | `recovery/position` | the known end of the journal |
//! | `write/writer` | the journal's end |
//! | `write/cleaning` | the progress of cleaning |
//! | `write/clean` | rewrites the live records of the oldest segment, and deletes the segment |
//! | `write/piece` | a piece of the oldest segment, cleaned in parts |
//! | `write/resend` | sends stored batches to a mirror |
//! | `mirror` | a second copy of the journal, elsewhere |
//! | `journal` | the stages |
//! | `store` | opens and checks stores |
//! | `options`, `status`, `error` | options, metrics, errors |
//!
//! The format does not depend on a real disk, so a simulation can cut the power at arbitrary moments and recover what
//! is left (`tests/power`).

#![forbid(unsafe_code)]

mod directory;
mod error;
mod format;
mod index;
mod journal;
mod mirror;
mod options;
mod recovery;
mod status;
mod store;
mod write;

pub use directory::names::is_journal_file;
pub use directory::source::Source;
pub use error::{AppendError, Lost, MirrorLost, OpenError, Torn};
pub use format::entry::Entry;
#[doc(hidden)]
pub use format::frame::first_segment;
pub use format::record::{DeliveryId, MessageId, Phase, Record, SessionId};
pub use index::Counts;
pub use journal::Journal;
pub use mirror::{Batches, LocalFuture, MakeMirror, Mirror};
pub use options::Options;
pub use recovery::recovered::{Delivery, Message, Recovered, Session, Subscription};
pub use status::Status;
pub use store::{Checked, Store, check, recover};
