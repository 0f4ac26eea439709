//! Writing and cleaning: the journal grows at its end and shrinks at its beginning.

pub(crate) mod clean;
pub(crate) mod cleaning;
pub(crate) mod piece;
mod resend;
pub(crate) mod writer;
