//! Applications of axum, served to real clients and in simulations.

mod clients;
mod connections;
mod draining;
mod harness;
mod header_timeout;
#[cfg(target_os = "linux")]
mod idle;
mod requests;
mod simulated;
mod spans;
mod tokio_inside;
mod websockets;
