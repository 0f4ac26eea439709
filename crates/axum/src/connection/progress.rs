//! The progress of a connection: whether it has a request, and over HTTP/1.1 whether it is between two requests, where
//! it may move.
//!
//! Neither hyper nor the connection's bytes tell this alone. The connection is between two requests if
//!
//! 1. the last request had no content and caused no upgrade, and the last read, which came before its call, ended with
//!    the end of a head. If that is another head, hyper has it in its buffer, and calls for it before it reads again;
//! 2. hyper has dropped the body of its response, so all of it is encoded;
//! 3. then hyper has flushed: it does so after it has written all encoded bytes.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use axum::body::HttpBody;
use axum::http::{Method, Request, StatusCode, Version};

use crate::connection::bodies::Guard;

/// None of the others.
const OTHER: u8 = 0;
/// A request is served after which the connection may move.
const SERVED: u8 = 1;
/// Its response is encoded.
const ANSWERED: u8 = 2;
/// Its response is written.
const BETWEEN: u8 = 3;

/// The kernel has all bytes that were sent.
const SENT: u8 = 0;
/// hyper has flushed, and the kernel has not taken all bytes.
const FLUSHED: u8 = 1;
/// hyper has not flushed.
const WRITTEN: u8 = 2;

/// The progress of one connection. Its parts are on one thread, unless the connection was upgraded, after which it does
/// not change.
#[derive(Clone, Default)]
pub(crate) struct Progress(Arc<State>);

#[derive(Default)]
struct State {
    phase: AtomicU8,
    /// The last read ended with the end of a head.
    is_head_complete: AtomicBool,
    /// The task that reads after the answer.
    waiting: Mutex<Option<Waker>>,
    /// Whether there may be one.
    has_waiting: AtomicBool,
    /// The number of requests whose responses are not encoded.
    requests: AtomicUsize,
    /// The number of these requests that are WebSockets over HTTP/2, which never end here.
    tunnels: AtomicUsize,
    /// The number of requests whose content was not dropped. Handlers may drop it on other threads.
    contents: AtomicUsize,
    /// The content of the last request was dropped before its end, so the client may still send it, unless hyper has
    /// read the rest.
    has_unread_content: AtomicBool,
    /// [`SENT`], [`FLUSHED`] or [`WRITTEN`].
    sending: AtomicU8,
    /// Bytes were sent, or a request has ended, since the last look.
    was_used: AtomicBool,
}

impl Progress {
    /// Whether a request is in progress.
    pub(crate) fn has_request(&self) -> bool {
        self.0.requests.load(Relaxed) > 0 || self.0.contents.load(Relaxed) > 0
    }

    /// Whether the connection has or had a WebSocket over HTTP/2.
    pub(crate) fn has_tunnel(&self) -> bool {
        self.0.tunnels.load(Relaxed) > 0
    }

    /// Whether a request is in progress that ends, unlike a WebSocket over HTTP/2.
    pub(crate) fn has_request_that_ends(&self) -> bool {
        let State { requests, tunnels, contents, .. } = &*self.0;
        requests.load(Relaxed) > tunnels.load(Relaxed) || contents.load(Relaxed) > 0
    }

    /// Whether the client may still send the content of its last request, which nothing reads any more.
    pub(crate) fn has_unread_content(&self) -> bool {
        self.0.has_unread_content.load(Relaxed)
    }

    /// Whether bytes were sent, or a request has ended, since the last call.
    pub(crate) fn take_use(&self) -> bool {
        // Not a swap, which is an atomic read-modify-write. A use between the two is a part of the one that was seen.
        let used = self.0.was_used.load(Relaxed);
        if used {
            self.0.was_used.store(false, Relaxed);
        }
        used
    }

    /// Whether bytes wait until the client receives others.
    pub(crate) fn is_sending(&self) -> bool {
        self.0.sending.load(Relaxed) != SENT
    }

    /// Notes a write of hyper.
    pub(crate) fn record_write(&self, written: &Poll<io::Result<usize>>) {
        self.0.sending.store(WRITTEN, Relaxed);
        if written.is_ready() {
            self.note_use();
        }
    }

    /// Notes that the connection is in use.
    fn note_use(&self) {
        self.0.was_used.store(true, Relaxed);
    }

    /// Begins a request. Only the connection's processor counts them.
    fn begin(&self) {
        self.0.requests.store(self.0.requests.load(Relaxed) + 1, Relaxed);
    }

    fn phase(&self) -> u8 {
        self.0.phase.load(Relaxed)
    }

    fn advance(&self, from: u8, to: u8) {
        if self.phase() == from {
            self.0.phase.store(to, Relaxed);
        }
    }

    /// Whether the connection is between two requests.
    pub(crate) fn is_between(&self) -> bool {
        self.phase() == BETWEEN
    }

    /// Whether a request is served after which the connection may move. Then wakes the task when it is answered.
    pub(crate) fn waits_for_answer(&self, context: &Context<'_>) -> bool {
        let waits = self.phase() == SERVED;
        if waits {
            *self.waiting() = Some(context.waker().clone());
            self.0.has_waiting.store(true, Relaxed);
        }
        waits
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Waker>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes bytes that hyper reads.
    pub(crate) fn read(&self, bytes: &[u8]) {
        let early = matches!(self.phase(), SERVED | ANSWERED);
        self.0.is_head_complete.store(!early && bytes.ends_with(b"\r\n\r\n"), Relaxed);
        self.0.phase.store(OTHER, Relaxed);
    }

    /// Notes a request, which is in progress until the result is dropped.
    pub(crate) fn called<B: HttpBody>(&self, request: &Request<B>) -> RequestInProgress {
        self.begin();
        self.0.has_unread_content.store(false, Relaxed);
        let (is_http2, is_tunnel) =
            (request.version() > Version::HTTP_11, request.method() == Method::CONNECT);
        if is_http2 || is_tunnel || !request.body().is_end_stream() {
            self.0.is_head_complete.store(false, Relaxed);
        }
        let is_head_complete = self.0.is_head_complete.load(Relaxed);
        self.0.phase.store(if is_head_complete { SERVED } else { OTHER }, Relaxed);
        RequestInProgress { progress: self.clone(), is_stream: is_http2 && is_tunnel }
    }

    /// Notes the content of a request. None is noted for a request that has no content.
    pub(crate) fn content_of<B: HttpBody>(
        &self,
        request: &Request<B>,
    ) -> Option<ContentInProgress> {
        (!request.body().is_end_stream()).then(|| self.content())
    }

    /// Notes content, which is in progress until the result is dropped.
    fn content(&self) -> ContentInProgress {
        self.0.contents.fetch_add(1, Relaxed);
        ContentInProgress { progress: self.clone(), is_whole: false }
    }

    fn record_response(&self) {
        self.0.requests.store(self.0.requests.load(Relaxed) - 1, Relaxed);
        self.note_use();
        self.advance(SERVED, ANSWERED);
        if self.0.has_waiting.load(Relaxed) {
            self.wake_waiting();
        }
    }

    #[cold]
    fn wake_waiting(&self) {
        self.0.has_waiting.store(false, Relaxed);
        let waiting = self.waiting().take();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Notes that hyper has written all that it has encoded, and whether a part of it waits for the kernel. hyper flushes
    /// whenever it is polled.
    pub(crate) fn flushed(&self, is_sending: bool) {
        let next = if is_sending { FLUSHED } else { SENT };
        if self.0.sending.load(Relaxed) == WRITTEN {
            self.note_use();
        }
        self.0.sending.store(next, Relaxed);
        self.advance(ANSWERED, BETWEEN);
    }
}

/// The content of a request until it is dropped.
pub(crate) struct ContentInProgress {
    progress: Progress,
    is_whole: bool,
}

impl Guard for ContentInProgress {
    fn body_ended(&mut self) {
        self.is_whole = true;
    }
}

impl Drop for ContentInProgress {
    fn drop(&mut self) {
        let Progress(state) = &self.progress;
        if !self.is_whole {
            state.has_unread_content.store(true, Relaxed);
        }
        state.contents.fetch_sub(1, Relaxed);
        self.progress.note_use();
    }
}

/// A request until its response is encoded, or its handler was dropped.
pub(crate) struct RequestInProgress {
    progress: Progress,
    /// It is a CONNECT over HTTP/2.
    is_stream: bool,
}

impl RequestInProgress {
    /// Notes the status of the response.
    pub(crate) fn answered_with(&self, status: StatusCode) {
        if status == StatusCode::SWITCHING_PROTOCOLS {
            // An upgrade, after which the connection is never between two requests.
            self.progress.0.phase.store(OTHER, Relaxed);
        }
        if self.is_stream && status.is_success() {
            // A WebSocket, whose end hyper does not report: the request never ends.
            self.progress.begin();
            let tunnels = &self.progress.0.tunnels;
            tunnels.store(tunnels.load(Relaxed) + 1, Relaxed);
        }
    }
}

impl Guard for RequestInProgress {
    fn body_ended(&mut self) {}
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.progress.record_response();
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    fn call(
        progress: &Progress,
        request: axum::http::request::Builder,
        content: &'static str,
    ) -> RequestInProgress {
        progress.called(&request.body(Body::from(content)).unwrap())
    }

    /// Whether a connection is between requests after it was called for one, read in these pieces, and answered.
    fn moves_after(pieces: &[&[u8]]) -> bool {
        let progress = Progress::default();
        pieces.iter().for_each(|piece| progress.read(piece));
        let request = call(&progress, Request::get("/"), "");
        progress.flushed(false);
        assert!(!progress.is_between(), "the response is not encoded");
        drop(request);
        assert!(!progress.is_between(), "the response is not written");
        progress.flushed(false);
        progress.is_between()
    }

    #[test]
    fn a_connection_is_between_requests_after_the_flush() {
        assert!(moves_after(&[HEAD]));
        assert!(moves_after(&[b"GET / HTTP/1.1\r\n", b"host: x\r\n\r\n"]));
    }

    #[test]
    fn a_part_of_a_next_request_keeps_the_connection() {
        assert!(!moves_after(&[b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET /"]));
        assert!(!moves_after(&[HEAD, b"GET /"]));
    }

    #[test]
    fn bytes_during_the_answer_keep_the_connection() {
        let progress = Progress::default();
        progress.read(HEAD);
        let first = call(&progress, Request::get("/"), "");
        progress.read(HEAD);
        drop(first);
        progress.flushed(false);
        assert!(!progress.is_between());
    }

    #[test]
    fn content_and_upgrades_keep_the_connection() {
        let upgrade = Request::get("/").header("upgrade", "websocket");
        let http2 = Request::get("/").version(Version::HTTP_2);
        for (request, content, status) in [
            (Request::post("/"), "a", StatusCode::OK),
            (upgrade, "", StatusCode::SWITCHING_PROTOCOLS),
            (http2, "", StatusCode::OK),
        ] {
            let progress = Progress::default();
            progress.read(HEAD);
            let request = call(&progress, request, content);
            request.answered_with(status);
            drop(request);
            progress.flushed(false);
            assert!(!progress.is_between());
        }
    }

    #[test]
    fn a_request_lasts_until_its_response_is_encoded_and_its_content_dropped() {
        let progress = Progress::default();
        assert!(!progress.has_request() && !progress.take_use());
        let requests = [(); 2].map(|()| call(&progress, Request::get("/"), ""));
        let content = progress.content();
        for request in requests {
            assert!(progress.has_request());
            drop(request);
            assert!(progress.take_use() && !progress.take_use());
        }
        assert!(progress.has_request());
        drop(content);
        assert!(progress.take_use() && !progress.has_request());
    }

    #[test]
    fn content_is_left_if_it_is_dropped_before_its_end() {
        let progress = Progress::default();
        let request = call(&progress, Request::post("/"), "a");
        let mut content = progress.content();
        content.body_ended();
        drop(content);
        assert!(!progress.has_unread_content());
        drop(progress.content());
        assert!(progress.has_unread_content());
        drop(request);
        drop(call(&progress, Request::get("/"), ""));
        assert!(!progress.has_unread_content(), "the client has sent it, and another request");
    }

    #[test]
    fn a_tunnel_over_http2_is_a_request_that_does_not_end() {
        for (version, accepted, is_over) in [
            (Version::HTTP_2, true, false),
            (Version::HTTP_2, false, true),
            (Version::HTTP_11, true, true),
        ] {
            let progress = Progress::default();
            let request = call(&progress, Request::connect("x:80").version(version), "");
            let status = if accepted { StatusCode::OK } else { StatusCode::NOT_FOUND };
            request.answered_with(status);
            assert!(progress.has_request_that_ends(), "the response is not encoded");
            drop(request);
            assert!(progress.has_request() != is_over && !progress.has_request_that_ends());
            let content = progress.content();
            assert!(progress.has_request_that_ends());
            drop(content);
        }
    }

    #[test]
    fn bytes_are_sent_when_the_kernel_has_them() {
        let progress = Progress::default();
        progress.record_write(&Poll::Pending);
        assert!(progress.is_sending() && !progress.take_use());
        progress.record_write(&Poll::Ready(Ok(1)));
        assert!(progress.is_sending() && progress.take_use());
        progress.flushed(true);
        assert!(progress.is_sending() && progress.take_use());
        progress.flushed(false);
        assert!(!progress.is_sending() && !progress.take_use());
    }
}
