//! Requests as operations of a stage.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::task::{Poll, ready};

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
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
        let request = request.map(|incoming| content(incoming, &progress));
        let (service, span) = (service.clone(), RequestSpan::new(&request));
        let around = span.clone();
        let answer = stage.run(move |_| around.around(handled(service, request)));
        answer.map(move |answer| {
            let response = answer.unwrap_or_else(|error| {
                let response = refusal(&error);
                span.answered(&response);
                response
            });
            in_progress.answered_with(response.status());
            Ok(response.map(|body| Answered::new(body, in_progress)))
        })
    })
}

/// The response of the service. Combinators, because an `async` block would contain the request and the future that it
/// becomes, and copy either once more.
fn handled<S: HttpService>(service: S, request: Request<Body>) -> impl Future<Output = Response> {
    let mut service = Some(service);
    let ready = poll_fn(move |context| {
        let Ok(()) = ready!(service.as_mut().expect(POLLED_ONCE).poll_ready(context));
        Poll::Ready(service.take().expect(POLLED_ONCE))
    });
    let called = ready.then(|mut service| service.call(request));
    called.map(|Ok(response)| response)
}

const POLLED_ONCE: &str = "a future is not polled after it is ready";

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
