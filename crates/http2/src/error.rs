//! Error codes, and errors of a stream or connection.

/// An error code (RFC 9113 §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    /// No error: a graceful shutdown.
    pub const NO_ERROR: Self = Self(0);
    /// The peer violated the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// The server failed.
    pub const INTERNAL_ERROR: Self = Self(2);
    /// The peer exceeded a window.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// A frame for a stream that is closed.
    pub const STREAM_CLOSED: Self = Self(5);
    /// A frame of an invalid length.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// The request was not processed, and may be repeated.
    pub const REFUSED_STREAM: Self = Self(7);
    /// The stream is not needed any more.
    pub const CANCEL: Self = Self(8);
    /// A field block cannot be decoded.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// The peer causes excessive load.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
}

/// An error in a received frame (RFC 9113 §5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// The connection ends.
    Connection(Code),
    /// The stream is reset.
    Stream(u32, Code),
}

/// The stream or its connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the HTTP/2 stream was reset, or its connection has ended")
    }
}

impl std::error::Error for Closed {}
