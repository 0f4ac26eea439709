//! Other ways to run operations than one by one, and loads of their memory ahead of time.

pub(crate) mod handler;
pub(crate) mod inline;
pub(crate) mod interleave;
pub(crate) mod interleave_ring;
pub(crate) mod prefetch_next;
