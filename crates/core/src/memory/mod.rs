//! The memory of one processor: the slab of slots, the pools for request objects, the region that both allocate from,
//! and prefetching.

pub(crate) mod chunks;
pub(crate) mod numbered;
pub(crate) mod pool;
pub(crate) mod prefetch;
pub(crate) mod region;
pub(crate) mod slab;
