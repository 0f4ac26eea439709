//! Clients that send arbitrary bytes, frames and packets.

pub mod http;
pub mod http2;
#[cfg(feature = "mqtt")]
pub mod mqtt;
pub mod tcp;
