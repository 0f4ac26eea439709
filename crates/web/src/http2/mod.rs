//! HTTP/2 (RFC 9113): many requests at once on one connection.
//!
//! The crate `h2` has the protocol; it does no I/O and starts no threads. A connection is an operation
//! of the stage `streams` that drives it, each request one of the control stage that goes the way of all requests
//! (`connection/respond.rs`), and the socket is touched in the name of the network stage like any other. So the
//! requests that came together are answered as a cohort, and the connection, which has its turn
//! after all of them, sends their answers at once.
//!
//! What a request asks and what it is answered is the same in both versions of the protocol, so there
//! is one form for it here, HTTP/1.1's: a request that comes in fields is written down as a head and
//! read by the same strict parser; an answer's head is taken apart into fields when it leaves. In return
//! nothing that answers knows which protocol it is.
//!
//! | file | idea |
//! |---|---|
//! | `connection.rs` | one connection: accepts streams, until it is idle or the program drains |
//! | `pipe.rs` | h2's way to the transport, through the network stage |
//! | `write_buffer.rs` | what h2 writes, gathered until the connection's turn is over |
//! | `monitor.rs` | the frames in both directions, seen beneath h2 |
//! | `frames.rs` | where frames begin and end |
//! | `flood.rs` | frames that cost more to handle than to send, counted |
//! | `hpack.rs`, `huffman.rs` | malformed paths, which h2 would not tell |
//! | `stream.rs` | one request and its answer |
//! | `request.rs` | from fields to a head |
//! | `answer.rs` | from a head to fields, and content within the client's windows |
//! | `fields.rs` | fields that were sent before |

/// How a client begins that knows beforehand, as far as it looks like a request of HTTP/1.1
/// (RFC 9113 §3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

pub(crate) mod answer;
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
