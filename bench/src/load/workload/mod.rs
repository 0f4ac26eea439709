//! When requests begin, and what they ask for.

pub(crate) mod pace;
pub(crate) mod surge;
pub(crate) mod visits;
pub(crate) mod zipf;
