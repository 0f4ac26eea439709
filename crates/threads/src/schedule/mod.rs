//! Runnable threads: their queues, and the ways between a thread's home and the carriers.

pub(crate) mod acceptors;
pub(crate) mod all;
pub(crate) mod home;
pub(crate) mod notify;
pub(crate) mod run_queue;
pub(crate) mod wake;
