//! Codes: attributes as slots, constants as numbers and labels, and events and conditions in these codes.

pub(crate) mod coded;
pub(crate) mod column;
pub(crate) mod dictionary;
pub(crate) mod event;
pub(crate) mod hashing;
pub(crate) mod named;
pub(crate) mod numbering;
pub(crate) mod residual;
