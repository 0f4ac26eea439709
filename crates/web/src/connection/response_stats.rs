//! Status and content length of a response, extracted from the bytes sent. Response code therefore does not
//! have to report to the access log.

use memchr::memmem;

/// Statistics of the current response.
#[derive(Default)]
pub(crate) struct ResponseStats {
    active: bool,
    /// Offset of the response in the gathered bytes.
    start: usize,
    /// Zero until the head was parsed.
    status: u16,
    head: u64,
    /// Bytes sent so far.
    sent: u64,
}

impl ResponseStats {
    /// Whether a response is in progress.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// Starts a response after the `gathered` bytes.
    pub(crate) fn begin(&mut self, gathered: &[u8]) {
        *self = Self { active: true, start: gathered.len(), ..Self::default() };
    }

    /// Parses the head before the gathered bytes are sent.
    pub(crate) fn observe(&mut self, gathered: &[u8]) {
        if self.active && self.status == 0 {
            self.parse_head(&gathered[self.start..]);
        }
    }

    /// Adds `bytes` that were sent.
    pub(crate) fn sent(&mut self, bytes: u64) {
        if self.active {
            self.sent += bytes - self.start as u64;
            self.start = 0;
        }
    }

    /// Finishes the response. Returns its status and the bytes of its content.
    pub(crate) fn finish(&mut self, gathered: &[u8]) -> (u16, u64) {
        self.observe(gathered);
        self.active = false;
        let bytes = self.sent + gathered.len().saturating_sub(self.start) as u64;
        (self.status, bytes.saturating_sub(self.head))
    }

    fn parse_head(&mut self, answer: &[u8]) {
        let digits = answer.get(b"HTTP/1.1 ".len()..).and_then(|rest| rest.get(..3));
        let Some(digits) = digits else { return };
        self.status = digits.iter().fold(0, |n, digit| n * 10 + u16::from(digit - b'0'));
        let end = memmem::find(answer, b"\r\n\r\n");
        self.head = end.map_or(answer.len(), |end| end + 4) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_sent_in_pieces() {
        let mut stats = ResponseStats::default();
        let mut gathered = b"HTTP/1.1 200 OK\r\n\r\nbefore".to_vec();
        stats.begin(&gathered);
        gathered.extend_from_slice(b"HTTP/1.1 206 Partial Content\r\nA: b\r\n\r\nab");
        stats.observe(&gathered);
        stats.sent(gathered.len() as u64 + 1000);
        stats.observe(b"");
        stats.sent(500);
        assert_eq!(stats.finish(b"xyz"), (206, 1505));
        // A response that is still gathered as a whole.
        stats.begin(b"xyz");
        assert_eq!(stats.finish(b"xyzHTTP/1.1 304 Not Modified\r\n\r\n"), (304, 0));
        // The connection broke before a response.
        stats.begin(b"xyz");
        assert_eq!(stats.finish(b"xyz"), (0, 0));
        // No response is in progress.
        stats.observe(b"");
        stats.sent(7);
    }
}
