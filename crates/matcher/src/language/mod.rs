//! The filter language: a subset of SQL's conditions.
//!
//! `token` is the lexer, `parse` builds an `expr`, `write` converts it back to text, `evaluate` defines its
//! meaning. `query` parses the short form that follows a topic.

pub(crate) mod error;
pub(crate) mod evaluate;
pub(crate) mod expr;
pub(crate) mod parse;
pub(crate) mod query;
mod token;
mod write;
