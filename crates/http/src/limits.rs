//! Limits on the size of requests.

/// Maximum number of field lines in a head, regardless of [`Limits::headers`].
pub const MAX_FIELDS: usize = 128;

/// Limits per request. Each field documents the response to a request that exceeds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the request line without its line end; 414 (RFC 9112, 3 recommends at least 8000).
    pub request_line: usize,
    /// Bytes of the head, including the request line and the closing empty line; 431.
    pub head: usize,
    /// Field lines in the head, at most [`MAX_FIELDS`]; 431.
    pub headers: usize,
    /// Bytes of a request body, which is read and discarded; 413.
    pub body: u64,
    /// Bytes of chunk extensions in one body, including semicolons and white space; 413. RFC 9112, 7.1.1
    /// recommends such a limit.
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
