//! Requests in progress while a server restarts, and while the proxy shuts down.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use http::StatusCode;
use phalanx_testkit::TIMEOUT;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::server::*;
use crate::common::metric;

/// Requests of each round.
const REQUESTS: usize = 20;

/// A server that returns the content of each request when `released`, and counts the requests in `begun`.
fn waiting(begun: &Arc<AtomicUsize>, released: &Arc<Notify>) -> H2Server {
    begun.store(0, Relaxed);
    let (begun, released) = (begun.clone(), released.clone());
    H2Server::new(100, move |(request, mut respond, _): Call| -> Served {
        let (begun, released) = (begun.clone(), released.clone());
        Box::pin(async move {
            let is_released = released.notified();
            let (content, _) = rest(&mut request.into_body()).await;
            begun.fetch_add(1, Relaxed);
            is_released.await;
            // The connection may have been closed.
            if let Ok(mut answer) = respond.send_response(head(200), false) {
                let _ = answer.send_data(content.into(), true);
            }
        })
    })
}

/// Waits until `count` requests have begun.
async fn until_begun(begun: &AtomicUsize, count: usize) {
    let all = async {
        while begun.load(Relaxed) < count {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let seen = || format!("{} of {count} requests have begun", begun.load(Relaxed));
    timeout(TIMEOUT, all).await.unwrap_or_else(|_| panic!("{}", seen()));
}

/// Starts a request, whose content is its number unless it is a GET. Returns its status, and its content if it is right.
fn ask(client: &Client, method: &'static str, number: usize) -> JoinHandle<StatusCode> {
    let client = client.clone();
    tokio::spawn(async move {
        let mut client = client.ready().await.unwrap();
        let text = if method == "GET" { String::new() } else { number.to_string() };
        let (response, mut body) = start(&mut client, method, !text.is_empty());
        if !text.is_empty() {
            send(&mut body, text.clone().into(), true).await;
        }
        let response = response.await.unwrap();
        let status = response.status();
        let content = rest(&mut response.into_body()).await.0;
        assert!(status != StatusCode::OK || content == text.as_bytes(), "of another request");
        status
    })
}

/// Alternately with and without content.
fn method(number: usize) -> &'static str {
    if number.is_multiple_of(2) { "GET" } else { "POST" }
}

/// The server completes the requests that it has got, and the proxy sends the others to its successor.
#[test]
fn a_graceful_restart_fails_no_request() {
    let (begun, released) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    with_server(
        || waiting(&begun, &released),
        |_| (),
        |server, backend| {
            let (begun, released) = (begun.clone(), released.clone());
            async move {
                let client = connect(&server).await;
                for round in 1..=10 {
                    let first: Vec<_> = (0..REQUESTS).map(|n| ask(&client, method(n), n)).collect();
                    until_begun(&begun, REQUESTS).await;
                    // These arrive at about the time of the GOAWAY.
                    let second: Vec<_> =
                        (0..REQUESTS).map(|n| ask(&client, method(n), n)).collect();
                    backend.restart(Restart::Graceful);
                    until_begun(&begun, 2 * REQUESTS).await;
                    released.notify_waiters();
                    for asked in first.into_iter().chain(second) {
                        assert_eq!(asked.await.unwrap(), StatusCode::OK, "in round {round}");
                    }
                    begun.store(0, Relaxed);
                }
                assert!(backend.accepted() > 1, "connections: {}", backend.accepted());
                assert_eq!(metric(&server, "http_upstream_ejections_total"), Some(0));
            }
        },
    );
}

/// Requests that may be repeated are, and the others fail once.
#[test]
fn an_abrupt_restart_fails_only_requests_that_it_may_have_processed() {
    let (begun, released) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    with_server(
        || waiting(&begun, &released),
        |_| (),
        |server, backend| {
            let (begun, released) = (begun.clone(), released.clone());
            async move {
                let client = connect(&server).await;
                // Only a connection that was open before may have been closed for another reason than the request.
                let earlier = ask(&client, "GET", 0);
                until_begun(&begun, 1).await;
                released.notify_waiters();
                assert_eq!(earlier.await.unwrap(), StatusCode::OK);
                let asked: Vec<_> = (0..REQUESTS).map(|n| ask(&client, method(n), n)).collect();
                until_begun(&begun, 1 + REQUESTS).await;
                backend.restart(Restart::Abrupt);
                until_begun(&begun, 1 + REQUESTS + REQUESTS / 2).await;
                released.notify_waiters();
                for (n, asked) in asked.into_iter().enumerate() {
                    let wanted =
                        if method(n) == "GET" { StatusCode::OK } else { StatusCode::BAD_GATEWAY };
                    assert_eq!(asked.await.unwrap(), wanted, "request {n}");
                }
                assert_eq!(backend.accepted(), 2);
            }
        },
    );
}

/// The proxy accepts no connection any more, but completes the request.
#[test]
fn a_drain_completes_requests() {
    let (begun, released) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    with_server(
        || waiting(&begun, &released),
        |_| (),
        |server, backend| {
            let (begun, released) = (begun.clone(), released.clone());
            async move {
                let client = connect(&server).await;
                let asked: Vec<_> = (0..REQUESTS).map(|n| ask(&client, method(n), n)).collect();
                until_begun(&begun, REQUESTS).await;
                server.control.drain();
                while TcpStream::connect(server.address).is_ok() {
                    sleep(Duration::from_millis(5)).await;
                }
                released.notify_waiters();
                for asked in asked {
                    assert_eq!(asked.await.unwrap(), StatusCode::OK);
                }
                assert_eq!(backend.accepted(), 1);
            }
        },
    );
}
