//! HTTP/3 (RFC 9114): concurrent requests on a QUIC connection.
//!
//! The crate `phalanx-quic` moves datagrams, and `phalanx-http3` implements the protocol as functions on bytes. An
//! operation of the stage `streams` drives each connection, as with HTTP/2: it comes before the control stage, where each
//! request is an operation that takes the same path as any request (`streams/`, `respond/`). Requests that arrive together
//! are answered as a cohort, and the connection then sends their responses together.
//!
//! | file | idea |
//! |---|---|
//! | `connection.rs` | one connection: serves until it is idle, the client misbehaves, or the program shuts down |
//! | `lifetime.rs` | its time limits |
//! | `control.rs` | the streams that carry no request |
//! | `stream.rs` | one request and its response |
//! | `content.rs` | the content of a request |
//! | `answer.rs`, `outgoing.rs` | sends a response within the client's windows |

pub(crate) mod connection;

mod answer;
mod content;
mod control;
mod lifetime;
mod outgoing;
mod stream;
