//! The filter language: a subset of SQL's conditions.
//!
//! `token` cuts the text, `parse` builds an `expr`, `write` spells it again, `evaluate` is what it means.
//! `query` reads the short form that fits behind a topic.

pub(crate) mod error;
pub(crate) mod evaluate;
pub(crate) mod expr;
pub(crate) mod parse;
pub(crate) mod query;
mod token;
mod write;
