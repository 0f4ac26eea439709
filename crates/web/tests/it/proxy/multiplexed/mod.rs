//! Servers with HTTP/2.

mod failures;
mod frames;
pub(crate) mod server;
mod streams;
