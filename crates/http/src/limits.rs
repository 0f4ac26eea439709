//! How much a client may send before it is refused.

/// The most field lines that a head may have, whatever [`Limits::headers`] says.
pub const MAX_FIELDS: usize = 128;

/// Bounds on what one request may cost. Each says what happens at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the request line without its line end; a longer one is answered 414
    /// (RFC 9112, 3 asks for at least 8000).
    pub request_line: usize,
    /// Bytes of the whole head, request line and closing empty line included; 431.
    pub head: usize,
    /// Field lines in the head, at most [`MAX_FIELDS`]; 431.
    pub headers: usize,
    /// Bytes of a request body that is read and thrown away; 413.
    pub body: u64,
    /// Bytes of chunk extensions in one body, semicolons and white space included; 413. RFC 9112, 7.1.1
    /// asks for such a limit.
    pub chunk_extensions: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            request_line: 8 * 1024,
            head: 32 * 1024,
            headers: 100,
            body: 64 * 1024,
            chunk_extensions: 1024,
        }
    }
}
