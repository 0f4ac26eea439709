//! HTTP/2 (RFC 9113): many concurrent requests on one connection.
//!
//! The crate `h2` implements the protocol; it performs no I/O and starts no threads. An operation of the
//! stage `streams` drives each connection. Each request is an operation of the control stage and takes the
//! same path as any request (`respond/`). Socket I/O uses the network stage. Requests that
//! arrive together are therefore answered as a cohort, and the connection, which runs after all of them,
//! sends their responses at once.
//!
//! | file | idea |
//! |---|---|
//! | `connection.rs` | one connection: accepts streams until it is idle or the program shuts down |
//! | `h2_io.rs` | the byte stream below h2, through the network stage |
//! | `write_buffer.rs` | h2's output, gathered until the connection's turn ends |
//! | `monitor.rs` | observes the frames of both directions below h2 |
//! | `frames.rs` | frame boundaries |
//! | `flood.rs` | limits on frames that cost more to handle than to send |
//! | `hpack.rs`, `huffman.rs` | finds malformed paths that h2 does not report |
//! | `stream.rs` | one request and its response |
//! | `request.rs` | converts fields to a request |
//! | `answer.rs` | sends a response within the client's windows |
//! | `fields.rs` | a cache of response fields |

/// Start of the client preface for prior knowledge, up to where it resembles an HTTP/1.1 request (RFC 9113
/// §3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

mod answer;
pub(crate) mod connection;
mod fields;
mod flood;
mod frames;
mod h2_io;
mod hpack;
mod huffman;
mod monitor;
mod request;
mod stream;
mod write_buffer;
