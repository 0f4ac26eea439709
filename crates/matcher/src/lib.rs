//! Content-based matching: which of a million filters does an event satisfy?
//!
//! - [`Filter`] is what a subscription asks for, written in a subset of SQL; [`Value`] is what an event
//!   carries.
//! - [`Index`] holds a filter for each [`Subscription`] and finds those that an [`Event`] satisfies: one event at
//!   a time, or a cohort of them, which reads each part of the index once for all. [`Snapshot`]s are for other
//!   threads.
//!
//! The crate stands alone: it makes no system call, starts no thread and reads no clock.

#![deny(unsafe_code)]

mod constant;
#[cfg(doctest)]
mod docs;
mod filter;
mod index;
mod language;
mod normal;
mod number;
mod simd;
mod value;

pub use filter::Filter;
pub use index::dictionary::Attribute;
pub use index::event::Event;
pub use index::matching::{Match, Matches, PieceId};
pub use index::queues::Queues;
pub use index::snapshot::{Shape, Snapshot};
pub use index::{Index, Options, Subscription};
pub use language::error::FilterError;
pub use number::{Number, NumberError};
pub use simd::Tier;
pub use value::{Literal, Value};
