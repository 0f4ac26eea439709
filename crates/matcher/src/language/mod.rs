//! The filter language: a subset of SQL's conditions.
//!
//! `token` is the lexer. `parse` builds an `expr`, with the parts `operand` and `pattern`. `write` converts it back
//! to text, `evaluate` defines its meaning. `query` parses the short form that follows a topic.

pub(crate) mod error;
pub(crate) mod evaluate;
pub(crate) mod expr;
mod name;
pub(crate) mod operand;
mod operands;
pub(crate) mod parse;
pub(crate) mod pattern;
pub(crate) mod query;
mod token;
mod write;
