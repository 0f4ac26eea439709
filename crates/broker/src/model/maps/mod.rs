//! Maps for state of which there is one per session, subscription or topic filter.
//!
//! Read `few_map` (few entries, in the order of insertion) and `small_map` (usually empty).

pub(crate) mod few_map;
pub(crate) mod small_map;
