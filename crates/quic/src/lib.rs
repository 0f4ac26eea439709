//! QUIC (RFC 9000) for servers.
//!
//! The protocol is implemented by `quinn-proto`, which performs no I/O. This crate moves datagrams between it and a UDP
//! socket, one socket and one [`Endpoint`] for each processor. An operation of the program drives each [`Connection`]:
//! it takes events, sends datagrams and waits for timers. Operations of the program read and write the streams. A
//! connection and its operations stay on one processor, so they need no lock.
//!
//! ```text
//!    socket ──► Endpoint ──► Connection ──► streams      received datagrams
//!    socket ◄────────────── Connection ◄── streams      sent datagrams
//! ```
//!
//! Connection identifiers tell the kernel which processor has a connection ([`phalanx::net::bind_quic`]), so a connection
//! stays with its processor when its client changes addresses, and no processor forwards datagrams.
//!
//! | file | idea |
//! |---|---|
//! | `config.rs` | limits, keys and certificates, shared by all processors |
//! | `endpoint.rs` | the datagrams of a socket, and new connections |
//! | `incoming.rs` | a new connection, before it is accepted |
//! | `core.rs` | the state that an endpoint shares with its connections |
//! | `connection.rs`, `state.rs` | one connection: events, sending, timers |
//! | `stream.rs` | reading and writing streams |
//! | `frames.rs` | counts of received frames |
//! | `send_queue.rs` | datagrams that are being sent |
//! | `identifiers.rs` | connection identifiers |
//! | `clock.rs` | the processor's time for `quinn-proto` |
//! | `metrics.rs` | counters |
//!
//! # Bounds
//!
//! | resource | bound |
//! |---|---|
//! | streams of a client | [`Limits::streams`] and [`Limits::peer_streams`] for each connection |
//! | received bytes that no operation has read | [`Limits::stream_window`] for each stream, [`Limits::receive_window`] for each connection |
//! | sent bytes that the client has not acknowledged | [`Limits::send_window`] for each connection; less if a processor has many connections ([`Limits::send_memory`]) |
//! | handshakes in progress | [`MAX_HANDSHAKES`] for each processor; above [`RETRY_HANDSHAKES`], a client must prove its address first (RFC 9000 §8.1.2) |
//! | datagrams being sent | [`MAX_SENDS`] for each connection and for each endpoint; a connection waits, an endpoint drops its response |
//! | bytes sent to an address that is not validated | three times the received ones (RFC 9000 §8.1) |
//!
//! Early data (0-RTT) is not accepted, because an attacker could replay it.

#![forbid(unsafe_code)]

mod clock;
mod config;
mod connection;
mod core;
mod endpoint;
mod frames;
mod identifiers;
mod incoming;
mod metrics;
mod send_queue;
mod state;
mod stream;

pub use config::{Config, Limits};
pub use connection::{Connection, Driven, Event, Unacknowledged};
pub use endpoint::Endpoint;
pub use frames::ReceivedFrames;
pub use incoming::{Incoming, MAX_HANDSHAKES, RETRY_HANDSHAKES};
pub use send_queue::MAX_SENDS;
pub use stream::{ReceiveStream, SendStream, StreamError};
