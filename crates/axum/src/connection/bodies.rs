//! The contents of requests and responses, whose ends a connection's [`Progress`] notes.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};

use crate::connection::progress::{ContentInProgress, RequestInProgress};

/// The content of a request, which is in progress until it is dropped.
pub(crate) fn content(incoming: Incoming, guard: Option<ContentInProgress>) -> Body {
    match guard {
        None => Body::new(incoming),
        Some(guard) => Body::new(Guarded::new(incoming, guard)),
    }
}

/// The body of a response.
pub(crate) type Answered = Guarded<Body, RequestInProgress>;

/// A value that is dropped with a body.
pub(crate) trait Guard {
    /// Called when the body has been read to its end.
    fn body_ended(&mut self);
}

/// A body with a guard.
pub(crate) struct Guarded<B, G> {
    body: B,
    guard: G,
}

impl<B, G> Guarded<B, G> {
    pub(crate) fn new(body: B, guard: G) -> Self {
        Self { body, guard }
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin, G: Guard + Unpin> HttpBody for Guarded<B, G> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.guard.body_ended();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
