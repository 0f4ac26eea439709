//! Requests as operations of a stage.

use std::convert::Infallible;
use std::future::poll_fn;

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use phalanx::{CallError, SharedStage};

use crate::progress::{Answered, Progress};
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
        progress.called(&request);
        let (mut service, span) = (service.clone(), RequestSpan::new(&request));
        let answer = stage.run(move |_| {
            span.around(async move {
                let Ok(()) = poll_fn(|context| service.poll_ready(context)).await;
                let Ok(response) = service.call(request.map(Body::new)).await;
                response
            })
        });
        let progress = progress.clone();
        async move {
            let response = answer.await.unwrap_or_else(|error| refusal(&error));
            Ok(response.map(|body| Answered::new(body, progress)))
        }
    })
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
