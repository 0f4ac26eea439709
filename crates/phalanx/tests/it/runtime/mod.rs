//! Tests of the runtime's public API, with each available driver.

#![cfg(unix)]

mod active;
mod admin_stage;
mod blocking;
mod cancel;
mod deadlocks;
mod end;
mod fibre_scopes;
mod fibre_streams;
mod fibre_sync;
mod fibres;
mod files;
mod foreign;
mod harness;
mod io_timeout;
mod life;
mod listeners;
mod mailbox;
mod many;
mod net;
mod offers;
mod panics;
mod resolver;
mod sending;
mod stalls;
mod start;
mod streams;
mod stuck;
mod time;
mod udp;
mod unix_sockets;
mod wakers;
mod writing;

/// Makes each named function a test per driver, `name::uring` and `name::poll`.
macro_rules! on_each_driver {
    ($($name:ident),* $(,)?) => {
        phalanx_testkit::per_driver!($crate::runtime::harness::on: $($name),*);
    };
}
pub(crate) use on_each_driver;
