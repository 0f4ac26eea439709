//! The index: subscriptions arranged so that an event is compared with few of them.
//!
//! `coding` turns conditions into codes of the `dictionary` and its `column`s. `advice` chooses `schema`s
//! from `statistics`. A `schema` leads to `piece`s, a piece to `cluster`s, and a cluster holds `group`s of
//! subscriptions in columns. [`Index`] is the only writer; readers use `snapshot` and `matching`. `queues`
//! collects cohorts of events at the pieces. `arranging` chooses schemas again when the mix of subscriptions
//! changes, `refiling` moves rows to them in small steps, and `decoding` turns columns back into conditions.

mod advice;
mod arranging;
mod choice;
pub(crate) mod cluster;
mod coding;
mod column;
mod decoding;
pub(crate) mod dictionary;
pub(crate) mod event;
pub(crate) mod group;
mod hashing;
mod location;
pub(crate) mod matching;
mod options;
mod piece;
mod placing;
pub(crate) mod queues;
mod refiling;
mod residual;
mod schema;
pub(crate) mod snapshot;
mod statistics;
mod writer;

pub use options::Options;
pub use writer::{Index, Subscription};
