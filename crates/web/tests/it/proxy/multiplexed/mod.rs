//! Servers with HTTP/2.

mod failures;
mod frames;
mod restarts;
pub(crate) mod server;
mod streams;
