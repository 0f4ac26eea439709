//! Requests in progress while a server restarts, and while the proxy shuts down.

use std::future::Future;
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
use crate::common::{Server, metric};

/// Requests of each round.
const REQUESTS: usize = 20;

/// The requests that the server has got.
#[derive(Default)]
struct Waiting {
    count: AtomicUsize,
    released: Notify,
}

impl Waiting {
    /// A server that returns the content of each request when it is released. It has got none before.
    fn server(self: &Arc<Self>) -> H2Server {
        self.count.store(0, Relaxed);
        let all = self.clone();
        H2Server::new(100, move |(request, mut respond, _): Call| -> Served {
            let all = all.clone();
            Box::pin(async move {
                let is_released = all.released.notified();
                let (content, _) = read_to_end(&mut request.into_body()).await;
                all.count.fetch_add(1, Relaxed);
                is_released.await;
                // The connection may have been closed.
                if let Ok(mut answer) = respond.send_response(head(200), false) {
                    let _ = answer.send_data(content.into(), true);
                }
            })
        })
    }

    /// Waits until the server has got `count` requests.
    async fn wait_until(&self, count: usize) {
        let all = async {
            while self.count.load(Relaxed) < count {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let got = || format!("the server has got {} of {count} requests", self.count.load(Relaxed));
        timeout(TIMEOUT, all).await.unwrap_or_else(|_| panic!("{}", got()));
    }

    fn release(&self) {
        self.released.notify_waiters();
    }
}

/// Runs `test` with a proxy before such a server, on each driver.
fn with_waiting<F: Future<Output = ()>>(test: impl Fn(Server, H2Server, Arc<Waiting>) -> F) {
    let waiting = Arc::<Waiting>::default();
    with_server(
        || waiting.server(),
        |_| (),
        |server, backend| test(server, backend, waiting.clone()),
    );
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
        let content = read_to_end(&mut response.into_body()).await.0;
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
    with_waiting(|server, backend, waiting| async move {
        let client = connect(&server).await;
        for round in 1..=10 {
            let first: Vec<_> = (0..REQUESTS).map(|n| ask(&client, method(n), n)).collect();
            waiting.wait_until(REQUESTS).await;
            // These arrive at about the time of the GOAWAY.
            let second: Vec<_> = (0..REQUESTS).map(|n| ask(&client, method(n), n)).collect();
            backend.restart(Restart::Graceful);
            waiting.wait_until(2 * REQUESTS).await;
            waiting.release();
            for asked in first.into_iter().chain(second) {
                assert_eq!(asked.await.unwrap(), StatusCode::OK, "in round {round}");
            }
            waiting.count.store(0, Relaxed);
        }
        assert!(backend.accepted() > 1, "connections: {}", backend.accepted());
        assert_eq!(metric(&server, "http_upstream_ejections_total"), Some(0));
    });
}

/// Requests that may be repeated are, and the others fail once.
#[test]
fn an_abrupt_restart_fails_only_requests_that_it_may_have_processed() {
    with_waiting(|server, backend, waiting| async move {
        let client = connect(&server).await;
        // Only a connection that was open before may have been closed for another reason than the request.
        let earlier = ask(&client, "GET", 0);
        waiting.wait_until(1).await;
        waiting.release();
        assert_eq!(earlier.await.unwrap(), StatusCode::OK);
        let asked: Vec<_> = (0..REQUESTS).map(|n| ask(&client, method(n), n)).collect();
        waiting.wait_until(1 + REQUESTS).await;
        backend.restart(Restart::Abrupt);
        waiting.wait_until(1 + REQUESTS + REQUESTS / 2).await;
        waiting.release();
        for (n, asked) in asked.into_iter().enumerate() {
            let wanted = if method(n) == "GET" { StatusCode::OK } else { StatusCode::BAD_GATEWAY };
            assert_eq!(asked.await.unwrap(), wanted, "request {n}");
        }
        assert_eq!(backend.accepted(), 2);
    });
}

/// The proxy accepts no connection any more, but completes the request.
#[test]
fn a_drain_completes_requests() {
    with_waiting(|server, backend, waiting| async move {
        let client = connect(&server).await;
        let asked: Vec<_> = (0..REQUESTS).map(|n| ask(&client, method(n), n)).collect();
        waiting.wait_until(REQUESTS).await;
        server.control.drain();
        while TcpStream::connect(server.address).is_ok() {
            sleep(Duration::from_millis(5)).await;
        }
        waiting.release();
        for asked in asked {
            assert_eq!(asked.await.unwrap(), StatusCode::OK);
        }
        assert_eq!(backend.accepted(), 1);
    });
}
