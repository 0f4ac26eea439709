pub(crate) mod pool;
pub(crate) mod region;
pub(crate) mod slab;
