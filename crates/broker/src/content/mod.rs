//! Content filters: their syntax, the attributes that they test, and the index that matches all of them
//! together.

pub(crate) mod attributes;
pub(crate) mod index;
mod json;
pub(crate) mod parse;
pub(crate) mod path;
pub(crate) mod size;
