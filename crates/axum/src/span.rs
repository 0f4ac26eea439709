//! A span of the crate `tracing` for each request. Without the feature `tracing`, it does nothing.

#[cfg(feature = "tracing")]
pub(crate) use enabled::RequestSpan;

#[cfg(not(feature = "tracing"))]
pub(crate) use disabled::RequestSpan;

#[cfg(feature = "tracing")]
mod enabled {
    use std::convert::Infallible;
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

        /// Starts and runs a handler in the span, and records the status of its response.
        pub(crate) fn instrument<F: Future<Output = Result<Response, Infallible>>>(
            self,
            start: impl FnOnce() -> F,
        ) -> impl Future<Output = F::Output> {
            let handler = self.0.in_scope(start);
            handler.instrument(self.0.clone()).map(move |Ok(response)| {
                self.answered(&response);
                Ok(response)
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

        pub(crate) fn instrument<F: Future>(self, start: impl FnOnce() -> F) -> F {
            start()
        }

        pub(crate) fn answered<B>(&self, _: &Response<B>) {}
    }
}
