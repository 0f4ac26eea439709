//! What is wrong with bytes that were read, or with a packet that was to be written.

use crate::reason::Reason;

/// Why a packet cannot be read or written.
///
/// Its reason is the one that the standard wants the other end to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// For the DISCONNECT or CONNACK in which the other end is told.
    pub reason: Reason,
    what: &'static str,
}

impl Error {
    /// The bytes break the standard's form.
    #[cold]
    pub(crate) const fn malformed(what: &'static str) -> Self {
        Self { reason: Reason::MALFORMED_PACKET, what }
    }

    /// The form is right, the sense is not.
    #[cold]
    pub(crate) const fn protocol(what: &'static str) -> Self {
        Self { reason: Reason::PROTOCOL_ERROR, what }
    }

    #[cold]
    pub(crate) const fn new(reason: Reason, what: &'static str) -> Self {
        Self { reason, what }
    }

    /// What is wrong, in words.
    pub const fn what(&self) -> &'static str {
        self.what
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.reason, self.what)
    }
}

impl std::error::Error for Error {}
