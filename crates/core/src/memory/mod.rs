//! Memory of one processor: the slab of slots, pools for the objects of requests, and the region that
//! both take chunks from.

pub(crate) mod pool;
pub(crate) mod prefetch;
pub(crate) mod region;
pub(crate) mod slab;
