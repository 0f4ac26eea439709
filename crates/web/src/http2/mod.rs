//! HTTP/2 (RFC 9113): many concurrent requests on one connection.
//!
//! The crate `phalanx-http2` implements the protocol as functions on bytes. An operation of the stage
//! `streams` drives each connection. Each request is an operation of the control stage and takes the
//! same path as any request (`respond/`). Socket I/O uses the network stage. Requests that
//! arrive together are therefore answered as a cohort, and the connection, which runs after all of them,
//! sends their responses at once.
//!
//! | file | idea |
//! |---|---|
//! | `connection.rs` | one connection: serves until it is idle or the program shuts down |
//! | `io.rs` | reads and writes through the network stage |
//! | `stream.rs` | one request and its response |
//! | `answer.rs` | sends a response within the client's windows |

use std::cell::RefCell;
use std::rc::Rc;

/// Start of the client preface for prior knowledge, up to where it resembles an HTTP/1.1 request (RFC 9113
/// §3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

/// The protocol state of a connection, shared with its streams. It is borrowed only for single calls.
type SharedConnection = Rc<RefCell<phalanx_http2::Connection>>;

mod answer;
pub(crate) mod connection;
mod io;
mod stream;
