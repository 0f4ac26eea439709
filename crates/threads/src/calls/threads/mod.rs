//! Threads: creation and end, signals, sleeps, and calls that depend on the kernel thread.

pub(crate) mod attributes;
pub(crate) mod children;
pub(crate) mod creation;
pub(crate) mod home_calls;
pub(crate) mod joins;
pub(crate) mod signals;
pub(crate) mod sleeps;
