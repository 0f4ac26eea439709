//! The buffer that responses are written to.

/// The encoding of a response head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Lines, for HTTP/1.0 and 1.1.
    Lines,
    /// A field block, for HTTP/2.
    Block,
}

/// Buffer of responses to send, with the status and the content length of the latest.
///
/// A buffer for HTTP/1.1 may gather several responses. A buffer for HTTP/2 contains one; its head is a field
/// block, which ends at [`head_length`](Self::head_length).
///
/// ```
/// use phalanx_http::{DateLine, Reply, ResponseBuffer, Status};
///
/// let mut out = ResponseBuffer::lines(Vec::with_capacity(512));
/// let date = DateLine::new(784_111_777);
/// out.head(Status::Ok, &date, Reply::CLOSE).field("Content-Type", b"text/plain").length(2).finish();
/// out.content(b"ok");
/// assert_eq!(
///     out.bytes(),
///     b"HTTP/1.1 200 OK\r\n\
///       Server: phalanx\r\n\
///       Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
///       Connection: close\r\n\
///       Content-Type: text/plain\r\n\
///       Content-Length: 2\r\n\r\nok"
/// );
/// assert_eq!((out.status(), out.content_bytes()), (200, 2));
/// ```
#[derive(Debug)]
pub struct ResponseBuffer {
    pub(super) bytes: Vec<u8>,
    pub(super) encoding: Encoding,
    pub(super) status: u16,
    /// End of the latest head.
    pub(super) head: usize,
    /// Declared length of the content.
    pub(super) length: Option<u64>,
    /// Content written or sent so far, in bytes.
    pub(super) content: u64,
    /// Whether the latest response uses chunked coding.
    pub(super) is_chunked: bool,
}

impl ResponseBuffer {
    /// A buffer for HTTP/1.0 and 1.1 that uses this memory.
    pub fn lines(memory: Vec<u8>) -> ResponseBuffer {
        ResponseBuffer::new(memory, Encoding::Lines)
    }

    /// A buffer for one response over HTTP/2 that uses this memory.
    pub fn block(memory: Vec<u8>) -> ResponseBuffer {
        ResponseBuffer::new(memory, Encoding::Block)
    }

    fn new(bytes: Vec<u8>, encoding: Encoding) -> ResponseBuffer {
        ResponseBuffer {
            bytes,
            encoding,
            status: 0,
            head: 0,
            length: None,
            content: 0,
            is_chunked: false,
        }
    }

    /// Appends content of the latest response.
    #[inline]
    pub fn content(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.content += bytes.len() as u64;
    }

    /// Appends a piece of the content of a [streamed](crate::Head::streamed) response, in a chunk if it has chunks.
    pub fn piece(&mut self, bytes: &[u8]) {
        if !self.is_chunked {
            return self.content(bytes);
        }
        // An empty chunk would end the content.
        if !bytes.is_empty() {
            self.bytes.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
            self.content(bytes);
            self.bytes.extend_from_slice(b"\r\n");
        }
    }

    /// Ends the content of a [streamed](crate::Head::streamed) response.
    pub fn end_pieces(&mut self) {
        if std::mem::take(&mut self.is_chunked) {
            self.bytes.extend_from_slice(b"0\r\n\r\n");
        }
    }

    /// Appends content of the latest response that `write` writes.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.len();
        write(&mut self.bytes);
        self.content += (self.bytes.len() - before) as u64;
    }

    /// Counts content of the latest response that is sent from elsewhere, in bytes.
    pub fn count(&mut self, bytes: u64) {
        self.content += bytes;
    }

    /// Forgets the latest response before the next request is processed.
    pub fn begin(&mut self) {
        (self.status, self.content) = (0, 0);
    }

    /// Status of the latest response; 0 before its head.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Content of the latest response written so far, in bytes.
    pub fn content_bytes(&self) -> u64 {
        self.content
    }

    /// Declared content length of the latest response; zero for a response without content, also to HEAD.
    pub fn declared(&self) -> Option<u64> {
        self.length
    }

    /// Length of the head in a buffer for HTTP/2.
    pub fn head_length(&self) -> usize {
        self.head
    }

    /// The bytes to send.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Removes the bytes and keeps their memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Takes the bytes to send, with their memory.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Replaces the memory, which must be empty.
    pub fn reuse(&mut self, memory: Vec<u8>) {
        debug_assert!(memory.is_empty() && self.bytes.is_empty());
        self.bytes = memory;
    }
}
