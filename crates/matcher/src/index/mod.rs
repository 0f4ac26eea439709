//! The index: subscriptions by what they ask for, arranged so that an event meets few of them.
//!
//! `coding` turns conditions into codes of the `dictionary` and its `column`s; `advice` chooses `schema`s by
//! `statistics`; a `schema` leads to `piece`s, a piece to `cluster`s, a cluster has `group`s of subscriptions in
//! columns. [`Index`] is the one who writes; `snapshot` and `matching` are what readers see; `queues` has
//! cohorts of events wait at the pieces. `arranging` chooses schemas anew as the mix changes, and `refiling` moves rows there,
//! a few at a time, with `decoding` the way back from columns to conditions.

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
