//! Byte streams of clients, below all versions of HTTP.
//!
//! | file | idea |
//! |---|---|
//! | `network.rs` | socket I/O as operations of the network stage |
//! | `linger.rs` | reading on after the last response |
//! | `disconnected.rs` | whether a client still waits |
//! | `answered.rs` | the latency of requests |
//! | `buffers.rs` | a pool of buffers |
//! | `peer.rs` | the client of a connection |
//! | `gauge_guard.rs` | counts live connections |

pub(crate) mod answered;
pub(crate) mod buffers;
pub(crate) mod disconnected;
pub(crate) mod gauge_guard;
pub(crate) mod linger;
pub(crate) mod network;
pub(crate) mod peer;
