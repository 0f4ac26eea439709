//! Requests as operations of a stage.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::Either;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use phalanx::{CallError, SharedStage};

use crate::connection::bodies::{Answered, content};
use crate::connection::progress::Progress;
use crate::services::HttpService;
use crate::span::RequestSpan;

/// The service that hyper calls: each request becomes an operation of `stage`. If the client leaves before the answer,
/// the handler is dropped, as it is by other servers.
pub(crate) fn requests<S: HttpService>(
    service: S,
    stage: SharedStage<()>,
    progress: Progress,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = Response<Answered>,
    Error = Infallible,
    Future: 'static,
> {
    service_fn(move |request: Request<Incoming>| {
        let in_progress = progress.called(&request);
        let guard = progress.content_of(&request);
        let (service, span) = (service.clone(), RequestSpan::new(&request));
        let handler_span = span.clone();
        // Boxed now rather than in the operation, because the request is copied until the handler has it.
        let request = request.map(|incoming| content(incoming, guard));
        let answer = stage.run(move |_| handler_span.instrument(|| handled(service, request)));
        answer.map(move |answer| {
            let response = match answer {
                Ok(Ok(response)) => response,
                Err(error) => {
                    let response = refusal(&error);
                    span.answered(&response);
                    response
                }
            };
            in_progress.answered_with(response.status());
            Ok(response.map(|body| Answered::new(body, in_progress)))
        })
    })
}

/// The response of the service. A service that is ready, such as a router, is called immediately: a future that waited
/// first would contain the request and the future that it becomes, and copy either once more.
fn handled<S: HttpService>(mut service: S, request: Request<Body>) -> Handled<S::Future> {
    match service.poll_ready(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(())) => Either::Left(service.call(request)),
        Poll::Pending => Either::Right(Box::pin(async move {
            let Ok(()) = poll_fn(|context| service.poll_ready(context)).await;
            service.call(request).await
        })),
    }
}

/// The future of a service that is ready, or one that waits for the service first.
type Handled<F> = Either<F, Pin<Box<dyn Future<Output = <F as Future>::Output>>>>;

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
            let headers = [(header::RETRY_AFTER, "1")];
            (StatusCode::SERVICE_UNAVAILABLE, headers, "the server is busy\n").into_response()
        }
    }
}
