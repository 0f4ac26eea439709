//! A span of the crate `tracing` for each request. Without the feature `tracing`, it does nothing.

#[cfg(feature = "tracing")]
pub(crate) use enabled::RequestSpan;

#[cfg(not(feature = "tracing"))]
pub(crate) use disabled::RequestSpan;

#[cfg(feature = "tracing")]
mod enabled {
    use std::future::Future;

    use axum::response::Response;
    use futures_util::FutureExt;
    use hyper::Request;
    use tracing::field::Empty;
    use tracing::{Instrument, Span, info_span};

    /// The span of one request. Polls of its handler are inside of it, and the drop of the handler.
    #[derive(Clone)]
    pub(crate) struct RequestSpan(Span);

    impl RequestSpan {
        pub(crate) fn new<B>(request: &Request<B>) -> Self {
            Self(info_span!(
                target: "phalanx_axum",
                "request",
                method = %request.method(),
                path = request.uri().path(),
                version = ?request.version(),
                stage = "requests",
                status = Empty,
            ))
        }

        /// Runs `handler` in the span, and records the status of its response.
        pub(crate) fn around(
            self,
            handler: impl Future<Output = Response>,
        ) -> impl Future<Output = Response> {
            handler.instrument(self.0.clone()).map(move |response| {
                self.answered(&response);
                response
            })
        }

        /// Records the status of a response.
        pub(crate) fn answered<B>(&self, response: &Response<B>) {
            self.0.record("status", response.status().as_u16());
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod disabled {
    use std::future::Future;

    use axum::response::Response;
    use hyper::Request;

    #[derive(Clone)]
    pub(crate) struct RequestSpan;

    impl RequestSpan {
        pub(crate) fn new<B>(_: &Request<B>) -> Self {
            Self
        }

        pub(crate) fn around<F: Future<Output = Response>>(self, handler: F) -> F {
            handler
        }

        pub(crate) fn answered<B>(&self, _: &Response<B>) {}
    }
}
