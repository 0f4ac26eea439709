//! Content-based matching: finds those filters, among millions, that an event satisfies.
//!
//! - [`Filter`] is the condition of a subscription, written in a subset of SQL; [`Value`] is an attribute of
//!   an event.
//! - [`Index`] holds a filter for each [`Subscription`] and finds those that an [`Event`] satisfies. It matches one
//!   event at a time, or a cohort of events, for which it reads each part of the index once. Other threads match on
//!   [`Snapshot`]s.
//!
//! The crate makes no system call, starts no thread and reads no clock.

#![deny(unsafe_code)]

mod condition;
mod constant;
#[cfg(doctest)]
mod docs;
mod filter;
mod index;
mod language;
mod limits;
mod normal;
mod number;
mod simd;
mod value;

pub use filter::{Evaluator, Filter};
pub use index::code::dictionary::Attribute;
pub use index::code::event::Event;
pub use index::read::matching::{Match, Matches};
pub use index::read::queues::Queues;
pub use index::rows::snapshot::{Shape, Snapshot};
pub use index::{Index, Options, Subscription};
pub use language::error::FilterError;
pub use number::{Number, NumberError};
pub use simd::Tier;
pub use value::{Literal, Value};
