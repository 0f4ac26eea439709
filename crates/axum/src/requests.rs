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

use crate::progress::{Answered, Progress};
use crate::services::HttpService;
use crate::span::RequestSpan;

/// The service that hyper calls: each request becomes a call on the stage *requests*.
pub(crate) struct Requests<S> {
    pub(crate) service: S,
    pub(crate) stage: SharedStage<()>,
    pub(crate) progress: Progress,
}

impl<S: HttpService> hyper::service::Service<Request<Incoming>> for Requests<S> {
    type Response = Response<Answered>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: Request<Incoming>) -> Answer {
        self.progress.called(&request);
        let (mut service, span) = (self.service.clone(), RequestSpan::new(&request));
        let call = self.stage.call(move |_| async move {
            let handler = async move {
                let Ok(()) = poll_fn(|context| service.poll_ready(context)).await;
                let Ok(response) = service.call(request.map(Body::new)).await;
                response
            };
            span.around(handler).await
        });
        Answer { call, progress: self.progress.clone() }
    }
}

/// The answer to a request. If the client leaves first, the handler is dropped, as it is by other servers.
pub(crate) struct Answer {
    call: Call<Response>,
    progress: Progress,
}

impl Future for Answer {
    type Output = Result<Response<Answered>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answered = ready!(Pin::new(&mut self.call).poll(context));
        let response = answered.unwrap_or_else(|error| refusal(&error));
        Poll::Ready(Ok(response.map(|body| Answered::new(body, self.progress.clone()))))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // No effect after the answer.
        self.call.cancel();
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
