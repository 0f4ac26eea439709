//! WebSocket (RFC 6455) for a server, as functions on bytes: no socket, no thread, no clock.
//!
//! | file | idea |
//! |---|---|
//! | `upgrade` | the HTTP request that a connection begins with, and its answer |
//! | `decoder` | what a client sends: frames, into the bytes that they carry |
//! | `encoder` | what a server sends |
//!
//! A WebSocket here is a stream of bytes within binary messages. Messages' ends are of no interest to those who use
//! it (MQTT 5 §6 forbids to rely on them), so no message is put together: what a frame carries is passed on as it
//! comes, and nothing needs to be as long as a message is. Extensions are not spoken.

#![forbid(unsafe_code)]

mod decoder;
mod encoder;
mod upgrade;

pub use decoder::{Broken, Decoder};
pub use encoder::{binary, close};
pub use upgrade::{MAX_HEAD, Refused, Upgrade};

/// Why a WebSocket is closed (RFC 6455 §7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    /// All is said.
    Normal = 1000,
    /// The server goes away.
    GoingAway = 1001,
    /// What has come is no WebSocket.
    ProtocolError = 1002,
    /// What has come is of a kind that is not taken: text.
    UnsupportedData = 1003,
}
