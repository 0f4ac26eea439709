//! Alternatives to running operations one by one, and prefetching of their memory.

pub(crate) mod handler;
pub(crate) mod inline;
pub(crate) mod interleave;
pub(crate) mod interleave_ring;
pub(crate) mod prefetch_next;
