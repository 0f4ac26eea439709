//! Error codes, and errors of a stream or of a connection.

/// An error code (RFC 9114 §8.1, RFC 9204 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    /// No error: the connection or the stream is not needed any more.
    pub const NO_ERROR: Self = Self(0x100);
    /// The server failed.
    pub const INTERNAL_ERROR: Self = Self(0x102);
    /// A stream that the peer must not open.
    pub const STREAM_CREATION_ERROR: Self = Self(0x103);
    /// A stream ended that must stay open.
    pub const CLOSED_CRITICAL_STREAM: Self = Self(0x104);
    /// A frame that is not permitted here.
    pub const FRAME_UNEXPECTED: Self = Self(0x105);
    /// A frame with an invalid layout or size.
    pub const FRAME_ERROR: Self = Self(0x106);
    /// The peer causes excessive load.
    pub const EXCESSIVE_LOAD: Self = Self(0x107);
    /// An identifier that was reduced or never issued.
    pub const ID_ERROR: Self = Self(0x108);
    /// An invalid setting.
    pub const SETTINGS_ERROR: Self = Self(0x109);
    /// The control stream does not begin with SETTINGS.
    pub const MISSING_SETTINGS: Self = Self(0x10a);
    /// The request was not processed, and may be repeated.
    pub const REQUEST_REJECTED: Self = Self(0x10b);
    /// The request or its response is not needed any more.
    pub const REQUEST_CANCELLED: Self = Self(0x10c);
    /// The stream ended before the request was complete.
    pub const REQUEST_INCOMPLETE: Self = Self(0x10d);
    /// A malformed request.
    pub const MESSAGE_ERROR: Self = Self(0x10e);
    /// A field section cannot be decoded.
    pub const QPACK_DECOMPRESSION_FAILED: Self = Self(0x200);
    /// An instruction on the encoder stream is invalid.
    pub const QPACK_ENCODER_STREAM_ERROR: Self = Self(0x201);
    /// An instruction on the decoder stream is invalid.
    pub const QPACK_DECODER_STREAM_ERROR: Self = Self(0x202);
}

/// An error in received bytes (RFC 9114 §8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The connection ends.
    Connection(Code),
    /// The stream is reset.
    Stream(Code),
}

impl Error {
    /// The error code.
    pub fn code(self) -> Code {
        match self {
            Self::Connection(code) | Self::Stream(code) => code,
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Self::Connection(_) => "the connection",
            Self::Stream(_) => "the stream",
        };
        write!(f, "the client violated HTTP/3: {kind} ends with the code {:#x}", self.code().0)
    }
}

impl std::error::Error for Error {}
