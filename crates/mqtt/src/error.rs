//! Errors of decoding and encoding.

use crate::reason::Reason;

/// An error of decoding or encoding a packet.
///
/// Its reason code is the one that the standard requires in the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The reason code for the DISCONNECT or CONNACK.
    pub reason: Reason,
    message: &'static str,
}

impl Error {
    /// The packet is malformed.
    #[cold]
    pub(crate) const fn malformed(message: &'static str) -> Self {
        Self { reason: Reason::MALFORMED_PACKET, message }
    }

    /// The packet is well-formed, but violates the protocol.
    #[cold]
    pub(crate) const fn protocol(message: &'static str) -> Self {
        Self { reason: Reason::PROTOCOL_ERROR, message }
    }

    #[cold]
    pub(crate) const fn new(reason: Reason, message: &'static str) -> Self {
        Self { reason, message }
    }

    /// A description of the error.
    pub const fn message(&self) -> &'static str {
        self.message
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

impl std::error::Error for Error {}
