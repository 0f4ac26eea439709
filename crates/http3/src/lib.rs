//! HTTP/3 (RFC 9114) for a server, as functions on bytes.
//!
//! The crate performs no I/O and does not depend on QUIC. QUIC provides streams and flow control, so an HTTP/3
//! connection has little state: a [`Receiver`] reads the frames of a request's stream, a [`PeerStream`] reads a stream
//! of the client that carries no request, and [`encoder`] writes frames. Request heads are those of HTTP/2, which
//! has the same rules for fields.
//!
//! Header compression (QPACK, RFC 9204) uses the static table and literals only, in both directions: the server
//! announces a dynamic table without capacity. So streams do not wait for each other, and a connection stores no fields.
//!
//! ```
//! use phalanx_http2::Flood;
//! use phalanx_http3::{Limits, Received, Receiver, encoder};
//!
//! let (mut receiver, mut flood) = (Receiver::new(Limits { head: 8192 }), Flood::default());
//! // HEADERS with a GET request, as a client may divide it.
//! let mut input = &b"\x01\x0b\0\0\xd1\xd7\xc1\x50\x04h.ex"[..];
//! let received = receiver.receive(&mut input, &mut flood)?;
//! let Some(Received::Head(head)) = received else { panic!("the head is complete") };
//! assert_eq!((head.method(), head.path(), head.authority()), ("GET", "/", Some("h.ex")));
//! receiver.finish()?;
//!
//! let mut output = Vec::new();
//! encoder::head(&mut output, |block| phalanx_http2::encoder::status(block, 200));
//! encoder::content(&mut output, 7);
//! output.extend_from_slice(b"content");
//! assert_eq!(output, b"\x01\x03\0\0\xd9\0\x07content");
//! # Ok::<(), phalanx_http3::Error>(())
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `receiver.rs` | the stream of a request |
//! | `peer_stream.rs`, `settings.rs` | the other streams of a client |
//! | `encoder.rs` | frames of a server |
//! | `qpack/` | header compression |
//! | `frame.rs`, `varint.rs`, `error.rs` | the format of frames |
//!
//! # Bounds
//!
//! A stream buffers one frame that is not content: at most [`Limits::head`] bytes of a head or of trailers, and
//! [`MAX_CONTROL_FRAME_BYTES`] of a control frame. The windows of QUIC bound the content that has arrived. A [`Flood`] of
//! HTTP/2 counts the frames that cost more to receive than to send.
//!
//! [`Flood`]: phalanx_http2::Flood

#![forbid(unsafe_code)]

pub mod encoder;
mod error;
mod frame;
mod peer_stream;
mod qpack;
mod receiver;
mod settings;
mod varint;

pub use error::{Code, Error};
pub use peer_stream::{MAX_CONTROL_FRAME_BYTES, Peer, PeerStream};
pub use qpack::decoder::decode_block;
pub use receiver::{Limits, Received, Receiver};

/// The ALPN identifier (RFC 9114 §3.1).
pub const ALPN: &[u8] = b"h3";
