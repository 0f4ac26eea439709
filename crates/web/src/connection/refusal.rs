//! Saying no: what a server that has too much to do answers, in as little work as it takes.
//!
//! A refused request costs its parsing, a copy of some lines and a send; nothing is looked up for it.
//! Its answer leaves as any other does, ahead of the files that it was refused for.

use std::cell::Cell;
use std::net::Shutdown;
use std::rc::Rc;
use std::time::Duration;

use phalanx::SharedStage;
use phalanx::net::{Bytes, IoTimeout, Payload, Stream};
use phalanx::time::now;
use phalanx_http::{Head, Reply, Status, error_page};

use crate::connection::clock::with_date;

/// Clients are asked to wait a second: overload lasts longer than a moment, and the numbers that a
/// client may wait are whole (RFC 9110 §10.2.3).
const RETRY_LINES: &[u8] = b"Retry-After: 1\r\nContent-Length: 0\r\n";
/// A connection that is turned away is listened to for so long, so that its client gets to read why
/// before a request of its own resets the connection (RFC 9112 §9.6).
const LINGER: Duration = Duration::from_millis(500);
/// So many are told why at a time on each processor, fewer than it has descriptors in reserve; more
/// are closed without a word.
const MAX_REJECTIONS: usize = 128;

/// Adds the answer to a request that was not admitted. The connection goes on if `reply` says so.
pub(crate) fn refuse(out: &mut Vec<u8>, reply: Reply) {
    with_date(|date| {
        Head::new(out, Status::ServiceUnavailable, date, reply).block(RETRY_LINES).finish();
    });
}

/// Adds the answer to a request of an address that asks too often: the next is taken after `wait`.
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

/// Adds the page of an error of the request itself.
pub(crate) fn page(out: &mut Vec<u8>, status: Status, reply: Reply) {
    with_date(|date| error_page(out, status, date, reply));
}

/// Adds the answer to who speaks plain HTTP where TLS is spoken: mostly somebody at a browser.
#[cold]
pub(crate) fn plain_http_page(out: &mut Vec<u8>, status: Status, reply: Reply) {
    const TEXT: &[u8] = b"TLS is spoken here: ask for the same with https:// in front.\n";
    with_date(|date| {
        Head::new(out, status, date, reply)
            .block(b"Content-Type: text/plain; charset=utf-8\r\n")
            .length(TEXT.len() as u64)
            .finish();
    });
    out.extend_from_slice(TEXT);
}

/// Turns away a connection there is no room for: of the server's, or with 429 of its address's.
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
    // Refused at the bound of operations: closed without a word.
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

/// One of those that are being told.
struct RejectionGuard(Rc<Cell<usize>>);

impl Drop for RejectionGuard {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
