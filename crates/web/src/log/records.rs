//! Records of answered requests. The text of several requests is stored in one pooled buffer.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use phalanx_http::Access;

use crate::log::outputs::{Logs, Output};

/// Text fields per request in the order of their storage. The user is last because it is determined last.
const TEXTS: usize = 5;
/// Records kept in each processor's pool.
const POOL_CAP: usize = 256;
/// Larger text buffers are freed, in bytes.
const MAX_POOLED_TEXT_BYTES: usize = 8 * 1024;

/// Records of a connection's requests.
pub(crate) struct LogRecords {
    /// The logs of the configuration that serves the requests; `None` in the pool, because they would keep files open.
    logs: Option<Arc<Logs>>,
    requests: Vec<LogRecord>,
    text: Vec<u8>,
    /// Time when the responses were sent.
    pub(super) sent_at: Duration,
}

/// Record of one request.
struct LogRecord {
    /// Number of its log.
    log: usize,
    address: IpAddr,
    began: Duration,
    bytes: u64,
    status: u16,
    lengths: [u16; TEXTS],
}

thread_local! {
    #[expect(clippy::vec_box, reason = "records are passed in boxes, which are reused")]
    static POOL: RefCell<Vec<Box<LogRecords>>> = const { RefCell::new(Vec::new()) };
}

impl LogRecords {
    /// Takes empty records from the pool.
    pub(super) fn pooled(logs: &Arc<Logs>) -> Box<Self> {
        let mut records = POOL.with_borrow_mut(Vec::pop).unwrap_or_else(|| {
            let (requests, text) = (Vec::new(), Vec::new());
            Box::new(Self { logs: None, requests, text, sent_at: Duration::ZERO })
        });
        records.logs = Some(logs.clone());
        records
    }

    /// Whether the records belong to these logs.
    pub(super) fn is_of(&self, logs: &Arc<Logs>) -> bool {
        self.logs.as_ref().is_some_and(|known| Arc::ptr_eq(known, logs))
    }

    /// Returns the memory to the pool.
    pub(super) fn recycle(mut self: Box<Self>) {
        self.logs = None;
        self.requests.clear();
        self.text.clear();
        POOL.with_borrow_mut(|pool| {
            if pool.len() < POOL_CAP && self.text.capacity() <= MAX_POOLED_TEXT_BYTES {
                pool.push(self);
            }
        });
    }

    /// Adds a request from `address` to the log with index `log`, with the pieces of its request line and the other
    /// texts.
    pub(super) fn push(
        &mut self,
        log: usize,
        address: IpAddr,
        began: Duration,
        line: &[&[u8]],
        texts: [&[u8]; TEXTS - 2],
    ) {
        let [host, referer, agent] = texts.map(|text| [text]);
        let lengths = [line, &host, &referer, &agent].map(|pieces| self.push_text(pieces));
        let [line, host, referer, agent] = lengths;
        let lengths = [line, host, referer, agent, 0];
        self.requests.push(LogRecord { log, address, began, bytes: 0, status: 0, lengths });
    }

    /// Appends a text in pieces, truncated to what its length field can represent.
    fn push_text(&mut self, pieces: &[&[u8]]) -> u16 {
        let mut remaining = u16::MAX;
        for piece in pieces {
            let length = u16::try_from(piece.len()).unwrap_or(u16::MAX).min(remaining);
            self.text.extend_from_slice(&piece[..usize::from(length)]);
            remaining -= length;
        }
        u16::MAX - remaining
    }

    pub(super) fn set_user(&mut self, name: &[u8]) {
        let length = self.push_text(&[name]);
        if let Some(last) = self.requests.last_mut() {
            last.lengths[TEXTS - 1] = length;
        }
    }

    pub(super) fn set_response(&mut self, status: u16, bytes: u64) {
        if let Some(last) = self.requests.last_mut() {
            (last.status, last.bytes) = (status, bytes);
        }
    }

    /// Passes each request to `write`, with its log. `day` is the time of day at the origin of the runtime's clock.
    pub(super) fn for_each(&self, day: Duration, mut write: impl FnMut(&Arc<Output>, Access<'_>)) {
        let Some(logs) = &self.logs else { return };
        let mut rest = &self.text[..];
        for record in &self.requests {
            let mut next = |n: usize| {
                let (text, after) = rest.split_at(usize::from(record.lengths[n]));
                rest = after;
                text
            };
            let [line, host, referer, agent, user] = std::array::from_fn(&mut next);
            let access = Access {
                address: record.address,
                user,
                host,
                line,
                status: record.status,
                bytes: record.bytes,
                referer,
                agent,
                start: day + record.began,
                duration: self.sent_at.saturating_sub(record.began),
            };
            write(logs.output(record.log), access);
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_http::LogTime;

    use super::*;
    use crate::config::{AccessLog, Config, LogFormat};

    const LOCALHOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn logs() -> Arc<Logs> {
        let mut config = Config::new();
        config.access_log = Some(AccessLog { format: LogFormat::Combined, ..Default::default() });
        Logs::open(&config, None).unwrap()
    }

    fn lines(records: &LogRecords) -> String {
        let (mut time, mut out) = (LogTime::default(), Vec::new());
        records.for_each(Duration::ZERO, |output, access| {
            access.write(&output.format, &mut time, &mut out)
        });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_of_a_connection() {
        let logs = logs();
        let mut records = LogRecords::pooled(&logs);
        let second = Duration::from_secs(1);
        records.push(0, LOCALHOST, second, &[b"GET", b" /a HTTP/1.1"], [b"h", b"", b"agent"]);
        records.set_response(200, 5);
        records.push(0, LOCALHOST, 2 * second, &[b"GET /b HTTP/1.1"], [b"h", b"from", b""]);
        records.set_user(b"eve");
        records.set_response(401, 0);
        records.sent_at = 3 * second;
        assert_eq!(records.requests.len(), 2);
        let wanted = "127.0.0.1 - - [01/Jan/1970:00:00:01 +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"agent\"\n\
             127.0.0.1 - eve [01/Jan/1970:00:00:02 +0000] \"GET /b HTTP/1.1\" 401 0 \"from\" \"-\"\n";
        assert_eq!(lines(&records), wanted);
        records.recycle();
        assert_eq!(LogRecords::pooled(&logs).requests.len(), 0);
    }

    #[test]
    fn the_pool_keeps_no_logs_open() {
        let logs = logs();
        let records = LogRecords::pooled(&logs);
        assert_eq!(Arc::strong_count(&logs), 2);
        records.recycle();
        assert_eq!(Arc::strong_count(&logs), 1);
    }

    #[test]
    fn long_text_is_truncated() {
        let mut records = LogRecords::pooled(&logs());
        records.push(
            0,
            LOCALHOST,
            Duration::ZERO,
            &[b"GET ", &[b'x'; 70_000], b" "],
            [b"h", b"", b"end"],
        );
        assert!(lines(&records).ends_with("\"-\" \"end\"\n"));
    }
}
