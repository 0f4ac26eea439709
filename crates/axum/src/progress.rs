//! The progress of a connection over HTTP/1.1: whether it is between two requests, where it may move.
//!
//! Neither hyper nor the connection's bytes tell this alone. The connection is between two requests if
//!
//! 1. the last request had no content and was no upgrade, and the last read, which came before its call, ended with the
//!    end of a head. If that is another head, hyper has it in its buffer, and calls for it before it reads again;
//! 2. hyper has dropped the body of its response, so all of it is encoded;
//! 3. then hyper has flushed: it does so after it has written all encoded bytes.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Method, Request, Version, header};
use hyper::body::{Frame, SizeHint};

/// None of the others.
const OTHER: u8 = 0;
/// A request is served after which the connection may move.
const SERVED: u8 = 1;
/// Its response is encoded.
const ANSWERED: u8 = 2;
/// Its response is written.
const BETWEEN: u8 = 3;

/// The progress of one connection. Its parts are on one thread, unless the connection was upgraded, after which it does
/// not change.
#[derive(Clone, Default)]
pub(crate) struct Progress(Arc<State>);

#[derive(Default)]
struct State {
    phase: AtomicU8,
    /// The last read ended with the end of a head.
    whole: AtomicBool,
    /// The task that reads after the answer.
    waiting: Mutex<Option<Waker>>,
}

impl Progress {
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
        }
        waits
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Waker>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes bytes that hyper reads.
    pub(crate) fn read(&self, bytes: &[u8]) {
        let early = matches!(self.phase(), SERVED | ANSWERED);
        self.0.whole.store(!early && bytes.ends_with(b"\r\n\r\n"), Relaxed);
        self.0.phase.store(OTHER, Relaxed);
    }

    /// Notes a request.
    pub(crate) fn called<B: HttpBody>(&self, request: &Request<B>) {
        let stays = request.version() > Version::HTTP_11
            || request.method() == Method::CONNECT
            || request.headers().contains_key(header::UPGRADE)
            || !request.body().is_end_stream();
        if stays {
            self.0.whole.store(false, Relaxed);
        }
        let whole = self.0.whole.load(Relaxed);
        self.0.phase.store(if whole { SERVED } else { OTHER }, Relaxed);
    }

    fn answered(&self) {
        self.advance(SERVED, ANSWERED);
        let waiting = self.waiting().take();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Notes that hyper has written all that it has encoded.
    pub(crate) fn flushed(&self) {
        self.advance(ANSWERED, BETWEEN);
    }
}

/// The body of a response, whose end is noted.
pub(crate) struct Answered {
    body: Body,
    progress: Progress,
}

impl Answered {
    pub(crate) fn new(body: Body, progress: Progress) -> Self {
        Self { body, progress }
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        self.progress.answered();
    }
}

impl HttpBody for Answered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    fn call(progress: &Progress, request: axum::http::request::Builder, content: &'static str) {
        progress.called(&request.body(Body::from(content)).unwrap());
    }

    /// Whether a connection is between requests after it was called for one, read in these pieces, and answered.
    fn moves_after(pieces: &[&[u8]]) -> bool {
        let progress = Progress::default();
        pieces.iter().for_each(|piece| progress.read(piece));
        call(&progress, Request::get("/"), "");
        progress.flushed();
        assert!(!progress.is_between(), "the response is not encoded");
        progress.answered();
        assert!(!progress.is_between(), "the response is not written");
        progress.flushed();
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
        call(&progress, Request::get("/"), "");
        progress.read(HEAD);
        progress.answered();
        progress.flushed();
        assert!(!progress.is_between());
    }

    #[test]
    fn content_and_upgrades_keep_the_connection() {
        let upgrade = Request::get("/").header("upgrade", "websocket");
        let http2 = Request::get("/").version(Version::HTTP_2);
        for (request, content) in [(Request::post("/"), "a"), (upgrade, ""), (http2, "")] {
            let progress = Progress::default();
            progress.read(HEAD);
            call(&progress, request, content);
            progress.answered();
            progress.flushed();
            assert!(!progress.is_between());
        }
    }
}
