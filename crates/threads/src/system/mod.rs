//! The kernel and the C library: system calls, the functions behind the replaced ones, a lock.

pub(crate) mod deadline;
pub(crate) mod flags;
pub(crate) mod lock;
pub(crate) mod real;
pub(crate) mod sys;
