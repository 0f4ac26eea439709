//! Content-based matching: which of a million filters does an event satisfy?
//!
//! - [`Filter`] is what a subscription asks for, written in a subset of SQL; [`Value`] is what an event
//!   carries.
//!
//! The crate stands alone: it makes no system call, starts no thread and reads no clock.

#![deny(unsafe_code)]

mod constant;
mod filter;
mod language;
mod normal;
mod number;
mod value;

pub use filter::Filter;
pub use language::error::FilterError;
pub use number::{Number, NumberError};
pub use value::{Literal, Value};
