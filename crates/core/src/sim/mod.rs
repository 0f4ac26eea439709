//! Driving a processor step by step, for simulations, and looking for what is left in it.

pub(crate) mod leak_check;
pub(crate) mod stepping;
