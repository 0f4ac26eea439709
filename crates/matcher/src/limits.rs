//! Limits on the text of a filter.

/// Maximum length of the text in bytes.
pub(crate) const MAX_TEXT: usize = 8 * 1024;
/// Maximum nesting depth of parentheses and `NOT`s.
pub(crate) const MAX_DEPTH: usize = 32;
/// Maximum number of conjunctions of a filter.
pub(crate) const MAX_ALTERNATIVES: usize = 256;
/// Maximum number of conditions in a conjunction.
pub(crate) const MAX_CONDITIONS: usize = 64;
/// Maximum number of conditions that no index can decide.
pub(crate) const MAX_COMPUTED: usize = 16;
/// Maximum number of arithmetic operators.
pub(crate) const MAX_OPERATORS: usize = 64;
/// Maximum length in bytes of a text that is searched.
pub(crate) const MAX_SEARCHED: usize = 16 * 1024;
