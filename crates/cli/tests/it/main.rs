//! The command from the outside, with the real binary, sockets, files and clients such as curl.
//!
//! Each test starts its own servers on free ports with its own files, so that tests can run concurrently. Tests of
//! servers run on every driver of this machine, or on the one named by the environment variable `PHALANX_DRIVER`. Tests of
//! rules that do not depend on the driver run on one.

#![cfg(unix)]

mod arguments;
mod broker;
mod chromium;
mod conformance;
#[cfg(target_os = "linux")]
mod hot_code;
mod manual;
mod passwd;
mod profile;
mod server;
mod stingy;
#[cfg(target_os = "linux")]
mod threads;
mod web;

pub(crate) use server::{on_each_driver, on_one_driver};
