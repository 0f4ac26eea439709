//! HTTP/2 (RFC 9113) for a server, as functions on bytes.
//!
//! The crate performs no I/O. A [`Connection`] receives bytes, yields requests, and appends frames to an
//! output buffer, which the caller sends. All requests in the received bytes can be answered before the
//! output is sent, so that one read serves a cohort of streams, and one write carries their responses.
//!
//! A request with content is yielded with its head. [`Connection::poll_content`] takes the content as it arrives, or
//! [`Connection::poll_body`] discards it and reports when it is complete. Priorities are ignored, and nothing is pushed.
//!
//! ```
//! use std::time::Duration;
//!
//! use phalanx_http2::{Connection, Limits, encoder};
//!
//! let mut connection = Connection::new(Limits { streams: 100, head: 8192, body: 65_536 });
//! // The preface, SETTINGS, and a GET request on stream 1.
//! let input = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\
//!     \0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x01\x01a";
//! let mut taken = 0;
//! let request = connection.next_request(input, &mut taken, Duration::ZERO).unwrap();
//! assert_eq!((request.head.method(), request.head.path()), ("GET", "/"));
//! connection.respond(request.stream, false, |block| {
//!     encoder::status(block, 200);
//!     encoder::field(block, b"Content-Type", b"text/plain");
//! })?;
//! connection.send(request.stream, b"content", true)?;
//! assert_eq!(taken, input.len());
//! let output = connection.take_output(Vec::new());
//! assert!(output.ends_with(b"content"));
//! # Ok::<(), phalanx_http2::Closed>(())
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `connection/` | one connection: receiving, responding, ending |
//! | `streams.rs`, `window.rs` | the state of each stream, and flow control |
//! | `head.rs`, `fields.rs` | requests, and their validation |
//! | `hpack/` | header compression |
//! | `frame.rs`, `settings.rs`, `error.rs` | the format of frames |
//! | `primitives.rs` | the parts of header compression that HTTP/3 shares |
//! | `flood.rs` | limits on frames that cost more to handle than to send |
//!
//! # Bounds
//!
//! | memory of a connection | bound |
//! |---|---|
//! | streams | [`Limits::streams`] |
//! | head of a request | [`Limits::head`] |
//! | a field block that spans several frames | 128 KiB, or [`Limits::head`] if that is more |
//! | dynamic table of the decoder | 4 KiB, and as much for evicted entries |
//! | buffered content of requests | 64 KiB for each stream, 256 KiB once something was taken |
//! | output | 64 KiB of content, the response heads of all streams, and the responses to the frames of one read |
//!
//! A client that exceeds the limits of `flood.rs`, or the size of a field block, is disconnected with
//! ENHANCE_YOUR_CALM ([`Connection::excess`]).

#![forbid(unsafe_code)]

mod connection;
mod error;
mod fields;
mod flood;
mod frame;
mod head;
mod hpack;
pub mod primitives;
mod settings;
mod streams;
mod window;

pub use connection::{Body, Connection, Request};
pub use error::{Closed, Code};
pub use flood::{Excess, Flood, MAX_PER_WINDOW};
pub use head::{Head, is_valid_trailer};
pub use hpack::decoder::decode_block;
pub use hpack::encoder;
pub use settings::Limits;

/// The first bytes from every client (RFC 9113 §3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
