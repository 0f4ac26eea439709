//! WebSocket (RFC 6455) for a server, as functions on bytes: no socket, no thread, no clock.
//!
//! - `upgrade`: the HTTP request that opens a connection, and its response.
//! - `decoder`: reads the frames of a client.
//! - `encoder`: writes the frames of a server.
//!
//! A WebSocket is treated as a stream of bytes in binary messages. Message boundaries carry no meaning for
//! its users (MQTT 5 §6 forbids relying on them), so messages are not reassembled: the payload of a frame is
//! passed on as it arrives, and no buffer needs the size of a message. Extensions are not supported.

#![forbid(unsafe_code)]

mod code;
mod decoder;
mod encoder;
mod upgrade;

pub use code::Code;
pub use decoder::{DecodeError, Decoder};
pub use encoder::{binary, close};
pub use upgrade::{MAX_HEAD, Upgrade, UpgradeError};
