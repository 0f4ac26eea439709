//! The I/O tests, run against every driver: the two of the machine, and the simulated one, except for tests
//! of properties that only a kernel has.

mod accepting;
mod backlogged;
mod closing;
mod cost;
mod datagrams;
mod disk;
mod files;
mod harness;
mod model;
mod options;
mod parking;
mod peer;
mod pool;
mod receiving;
mod sending;
mod sending_files;
mod simulated;
mod unix_sockets;
mod user_bytes;
mod writing;

/// Makes each named function a test per driver of the machine, `name::uring` and `name::poll`.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => { phalanx_testkit::per_driver!(crate::harness::run: $($name),*); };
}
pub(crate) use on_both;

/// Like `on_both`, but also makes `name::sim`.
macro_rules! on_all {
    ($($name:ident),* $(,)?) => { phalanx_testkit::per_driver!(crate::harness::run, sim: $($name),*); };
}
pub(crate) use on_all;
