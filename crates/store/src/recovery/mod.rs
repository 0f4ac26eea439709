//! Recovery: reads the journal back.

pub(crate) mod live;
pub(crate) mod position;
pub(crate) mod recovered;
pub(crate) mod replay;
pub(crate) mod segments;
