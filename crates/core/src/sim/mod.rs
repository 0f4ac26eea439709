//! Single-stepping a processor for simulations, and checking it for leaks.

pub(crate) mod leak_check;
pub(crate) mod stepping;
