//! Recovery: reads the journal back.

pub(crate) mod position;
pub(crate) mod recovered;
pub(crate) mod replay;
