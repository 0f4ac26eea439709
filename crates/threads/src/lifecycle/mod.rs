//! The life of the process: the start of the carriers, and the number of threads.

pub(crate) mod activation;
mod environment;
pub(crate) mod forks;
pub(crate) mod settings;
pub(crate) mod threads;
pub(crate) mod waiting_stack;
