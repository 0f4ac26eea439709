//! What a request asks of a representation: coding, type, conditions and ranges.

pub(crate) mod accept;
pub(crate) mod conditional;
pub(crate) mod encoding;
pub mod range;
