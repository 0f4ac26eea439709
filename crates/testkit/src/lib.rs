//! Helpers for the tests of this workspace: server processes, clients, certificates, folders and waiting.
//!
//! Only `[dev-dependencies]` name this crate, and a demonstration that starts a database. Tests are correct at any load: servers listen on port 0, each test has
//! its own folder, and tests wait for conditions with [`eventually`] instead of sleeping. Its functions panic where
//! a test would.

#![cfg(unix)]

pub mod allocations;
#[cfg(feature = "tls")]
pub mod authority;
pub mod bytes;
pub mod driver;
pub mod frames;
pub mod http;
#[cfg(feature = "mqtt")]
pub mod mqtt;
pub mod nats;
pub mod postgres;
pub mod process;
pub mod procfs;
pub mod site;
mod steps;
pub mod tcp;
mod wait;

pub use steps::Steps;
pub use wait::{TIMEOUT, eventually, within_limit};
