//! Content negotiation, conditions and ranges of a request.

pub(crate) mod accept;
pub(crate) mod conditional;
pub(crate) mod encoding;
pub mod range;
