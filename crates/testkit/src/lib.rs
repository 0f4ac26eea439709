//! Helpers for the tests of this workspace: clients, server processes, certificates, folders and waiting.
//!
//! Only `[dev-dependencies]` name this crate, and a demonstration that starts a database. Tests are correct at any
//! load: servers listen on port 0, each test has its own folder, and tests wait for conditions with [`eventually`]
//! instead of sleeping. The functions panic where a test would.

#![cfg(unix)]

pub mod allocations;
mod clients;
pub mod driver;
mod files;
mod servers;
mod steps;
mod wait;

#[cfg(feature = "mqtt")]
pub use clients::mqtt;
pub use clients::{http, http2, tcp};
#[cfg(feature = "tls")]
pub use files::authority;
pub use files::{bytes, site};
pub use servers::{nats, postgres, process, procfs};
pub use steps::Steps;
pub use wait::{TIMEOUT, eventually, within_limit};
