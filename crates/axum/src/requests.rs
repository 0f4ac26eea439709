//! Requests as calls on a stage.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::Request;
use hyper::body::Incoming;
use phalanx::{Call, CallError, SharedStage};

use crate::services::HttpService;

/// The service that hyper calls: each request becomes a call on the stage *requests*, so that the handlers of all
/// connections whose requests arrived together run in one cohort.
pub(crate) struct Requests<S> {
    pub(crate) service: S,
    pub(crate) stage: SharedStage<()>,
}

impl<S: HttpService> hyper::service::Service<Request<Incoming>> for Requests<S> {
    type Response = Response;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: Request<Incoming>) -> Answer {
        let mut service = self.service.clone();
        Answer(self.stage.call(move |_| async move {
            let Ok(()) = poll_fn(|context| service.poll_ready(context)).await;
            let Ok(response) = service.call(request.map(Body::new)).await;
            response
        }))
    }
}

/// The answer to a request. If the client leaves first, the handler is dropped, as it is by other servers.
pub(crate) struct Answer(Call<Response>);

impl Future for Answer {
    type Output = Result<Response, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answered = ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(Ok(answered.unwrap_or_else(|error| refusal(&error))))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // No effect after the answer.
        self.0.cancel();
    }
}

/// The response to a request whose handler gave none.
#[cold]
fn refusal(error: &CallError) -> Response {
    match error {
        CallError::Panicked { .. } => {
            (StatusCode::INTERNAL_SERVER_ERROR, "the handler of this request panicked\n")
                .into_response()
        }
        // The stage is full, or the program ends.
        _ => {
            let again = [(header::RETRY_AFTER, "1")];
            (StatusCode::SERVICE_UNAVAILABLE, again, "the server is busy\n").into_response()
        }
    }
}
