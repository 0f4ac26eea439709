//! One suite of I/O tests, run against every driver.

mod accepting;
mod closing;
mod cost;
mod files;
mod harness;
mod model;
mod parking;
mod pool;
mod receiving;
mod sending;
mod writing;

/// Makes each named function a test per driver, `name::uring` and `name::poll`.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {$(
        mod $name {
            #[test]
            fn uring() {
                crate::harness::run(phalanx_driver::Kind::Uring, super::$name);
            }

            #[test]
            fn poll() {
                crate::harness::run(phalanx_driver::Kind::Poll, super::$name);
            }
        }
    )*};
}
pub(crate) use on_both;
