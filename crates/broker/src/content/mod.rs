//! Subscriptions with a filter on what messages carry: how it is written, what it looks at, and how all filters
//! are asked at once.

pub(crate) mod attributes;
pub(crate) mod index;
pub(crate) mod parse;
pub(crate) mod path;
