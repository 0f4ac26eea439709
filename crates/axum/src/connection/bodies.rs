//! The contents of requests and responses, whose ends a connection's [`Progress`] notes.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};

use crate::connection::progress::{ContentInProgress, RequestInProgress};

/// The content of a request, which is in progress until it is dropped.
pub(crate) fn content(incoming: Incoming, noted: Option<ContentInProgress>) -> Body {
    match noted {
        None => Body::new(incoming),
        Some(guard) => Body::new(Noted::new(incoming, guard)),
    }
}

/// The body of a response.
pub(crate) type Answered = Noted<Body, RequestInProgress>;

/// A body whose end drops a guard.
pub(crate) struct Noted<B, G> {
    body: B,
    _guard: G,
}

impl<B, G> Noted<B, G> {
    pub(crate) fn new(body: B, guard: G) -> Self {
        Self { body, _guard: guard }
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin, G: Unpin> HttpBody for Noted<B, G> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
