//! `phalanx broker` from the outside: the real binary, real sockets, real clients.
//!
//! Each test starts brokers of its own on free ports, so that all of them can run at once; and each runs on
//! every driver that this machine has, or on the one that the environment variable `PHALANX_DRIVER` names.

#![cfg(unix)]

mod broker;
mod client;
mod content;
mod flow;
mod mosquitto;
mod refusals;
mod retained;
mod sessions;
mod subscriptions;
mod wills;

/// Makes each named function a test per driver, `name::uring` and `name::poll`.
macro_rules! on_each_driver {
    ($($name:ident),* $(,)?) => {$(
        mod $name {
            #[test]
            fn uring() {
                $crate::broker::on("uring", super::$name);
            }

            #[test]
            fn poll() {
                $crate::broker::on("poll", super::$name);
            }
        }
    )*};
}
pub(crate) use on_each_driver;
