//! The contents of requests and responses, whose ends a connection's [`Progress`] notes.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};

use crate::progress::{Progress, RequestInProgress};

/// The content of a request. None is noted for a request that has no content.
pub(crate) fn content(incoming: Incoming, progress: &Progress) -> Body {
    if incoming.is_end_stream() {
        return Body::new(incoming);
    }
    progress.content_begins();
    Body::new(Content { incoming, progress: progress.clone() })
}

struct Content {
    incoming: Incoming,
    progress: Progress,
}

impl Drop for Content {
    fn drop(&mut self) {
        self.progress.content_ends();
    }
}

impl HttpBody for Content {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.incoming).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// The body of a response.
pub(crate) struct Answered {
    body: Body,
    _request: RequestInProgress,
}

impl Answered {
    pub(crate) fn new(body: Body, request: RequestInProgress) -> Self {
        Self { body, _request: request }
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
