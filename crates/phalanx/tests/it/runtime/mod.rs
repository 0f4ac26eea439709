//! Tests of the runtime's public API, with each available driver.

#![cfg(unix)]

mod blocking;
mod cancel;
mod end;
mod files;
mod harness;
mod io_timeout;
mod life;
mod listeners;
mod many;
mod net;
mod panics;
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
    ($($name:ident),* $(,)?) => {$(
        mod $name {
            #[test]
            fn uring() {
                $crate::runtime::harness::on(phalanx::runtime::DriverChoice::Uring, super::$name);
            }

            #[test]
            fn poll() {
                $crate::runtime::harness::on(phalanx::runtime::DriverChoice::Poll, super::$name);
            }
        }
    )*};
}
pub(crate) use on_each_driver;
