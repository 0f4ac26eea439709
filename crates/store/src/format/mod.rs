//! The format of the journal: changes of the state, their encoding, and the frames around them.

pub(crate) mod entry;
pub(crate) mod frame;
pub(crate) mod record;
pub(crate) mod wire;
