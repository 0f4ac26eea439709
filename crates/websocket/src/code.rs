//! Reasons for closing.

/// Reason for closing a WebSocket (RFC 6455 §7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    /// Normal closure.
    Normal = 1000,
    /// The server is shutting down.
    GoingAway = 1001,
    /// The client violated the protocol.
    ProtocolError = 1002,
    /// The client sent a text message.
    UnsupportedData = 1003,
}
