//! Cheap refusals for an overloaded server.
//!
//! Refusing a request costs parsing it, copying a few lines and one send, with no file lookup. The refusal is
//! sent like any other response, and before the files of admitted requests.

use std::cell::Cell;
use std::net::Shutdown;
use std::rc::Rc;
use std::time::Duration;

use phalanx::SharedStage;
use phalanx::net::{Bytes, IoTimeout, Payload, Stream};
use phalanx::time::now;
use phalanx_http::{Head, Reply, Status, error_page};

use crate::connection::clock::with_date;

/// Clients should wait one second: overload outlasts an instant, and `Retry-After` takes whole seconds (RFC
/// 9110 §10.2.3).
const RETRY_LINES: &[u8] = b"Retry-After: 1\r\nContent-Length: 0\r\n";
/// Time for which a rejected connection is read, so that the client can read the response before its own
/// request resets the connection (RFC 9112 §9.6).
const LINGER: Duration = Duration::from_millis(500);
/// Rejections in progress per processor, fewer than the descriptors kept in reserve. Further connections are
/// closed without a response.
const MAX_REJECTIONS: usize = 128;

/// Appends a 503 response to a request that was not admitted. `reply` decides whether the connection
/// persists.
pub(crate) fn refuse(out: &mut Vec<u8>, reply: Reply) {
    with_date(|date| {
        Head::new(out, Status::ServiceUnavailable, date, reply).block(RETRY_LINES).finish();
    });
}

/// Appends a 429 response to a request that exceeds its address's rate, with the time until the next is
/// admitted.
#[cold]
pub(crate) fn refuse_for(out: &mut Vec<u8>, wait: Duration, reply: Reply) {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    with_date(|date| {
        Head::new(out, Status::TooManyRequests, date, reply)
            .field("Retry-After", seconds.to_string().as_bytes())
            .length(0)
            .finish();
    });
}

/// Appends an error page for a malformed request.
pub(crate) fn page(out: &mut Vec<u8>, status: Status, reply: Reply) {
    with_date(|date| error_page(out, status, date, reply));
}

/// Appends the response to plain HTTP on a TLS port. The client is mostly a user with a browser.
#[cold]
pub(crate) fn plain_http_page(out: &mut Vec<u8>, status: Status, reply: Reply) {
    const TEXT: &[u8] = b"This port requires TLS. Use https:// instead of http://.\n";
    with_date(|date| {
        Head::new(out, status, date, reply)
            .block(b"Content-Type: text/plain; charset=utf-8\r\n")
            .length(TEXT.len() as u64)
            .finish();
    });
    out.extend_from_slice(TEXT);
}

/// Rejects a connection above a limit: 503 for the server's limit, 429 for that of the address.
pub(crate) fn reject(
    stream: Stream,
    refusals: SharedStage<()>,
    rejections: &Rc<Cell<usize>>,
    most: usize,
    status: Status,
) {
    if rejections.get() >= MAX_REJECTIONS.min((most / 8).max(4)) {
        return;
    }
    rejections.set(rejections.get() + 1);
    let rejections = RejectionGuard(rejections.clone());
    // If the operation limit is reached, the connection closes without a response.
    let _ = refusals.dispatch(move |_| async move {
        let _told = rejections;
        let mut head = Vec::with_capacity(256);
        with_date(|date| {
            Head::new(&mut head, status, date, Reply::CLOSE).block(RETRY_LINES).finish();
        });
        let begun = now();
        let left = || IoTimeout::after(LINGER.saturating_sub(now() - begun)).until_shutdown();
        if stream.write(Payload { head, body: Bytes::new() }, left()).await.is_err() {
            return;
        }
        let _ = stream.shutdown(Shutdown::Write);
        let mut ignored = Vec::new();
        while now() - begun < LINGER && matches!(stream.read(&mut ignored, left()).await, Ok(1..)) {
            ignored.clear();
        }
    });
}

/// Counts a rejection in progress.
struct RejectionGuard(Rc<Cell<usize>>);

impl Drop for RejectionGuard {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
