//! Limits on the text of a filter.

/// Maximum length of the text in bytes.
pub(crate) const MAX_TEXT: usize = 8 * 1024;
/// Maximum nesting depth of parentheses and `NOT`s.
pub(crate) const MAX_DEPTH: usize = 32;
/// Maximum number of conjunctions of a filter.
pub(crate) const MAX_ALTERNATIVES: usize = 256;
/// Maximum number of conditions in a conjunction.
pub(crate) const MAX_CONDITIONS: usize = 64;
