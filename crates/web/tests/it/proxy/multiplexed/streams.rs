//! Requests and responses on streams.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::server::*;
use crate::common::{all, connect as connect_plainly, read_until};

/// Answers with the content of the request, piece by piece, and trailers.
fn echo((request, mut respond, _): Call) -> Served {
    Box::pin(async move {
        let mut response = head(200);
        // A declared length does not hide trailers.
        if let Some(length) = request.headers().get("content-length") {
            response.headers_mut().insert("content-length", length.clone());
        }
        let (head, mut content) = request.into_parts();
        let text = |name: &str| head.headers.get(name).map_or("", |value| value.to_str().unwrap());
        assert_eq!(head.uri.authority().unwrap(), "a.example");
        assert_eq!((head.uri.path(), head.uri.scheme_str()), ("/api/x", Some("http")));
        assert_eq!((text("te"), text("cookie"), text("via")), ("trailers", "a=b", "2.0 phalanx"));
        assert_eq!(text("x-forwarded-proto"), "http");
        let mut answer = respond.send_response(response, false).unwrap();
        while let Some(piece) = piece(&mut content).await {
            send(&mut answer, piece, false).await;
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        trailers.insert("date", "never".parse().unwrap());
        answer.send_trailers(trailers).unwrap();
    })
}

/// A server answers each part of a request before the client sends the next, as with gRPC.
#[test]
fn both_directions_at_once() {
    with_server(
        || H2Server::new(100, echo),
        |_| (),
        |server, backend| async move {
            let client = connect(&server).await;
            let (response, mut body) = start(&mut client.clone(), "POST", true);
            // The head arrives before any content.
            let response = response.await.unwrap();
            assert_eq!(response.headers()["x-own"], "1");
            let mut content = response.into_body();
            for text in ["one", "two", "three"] {
                send(&mut body, text.into(), false).await;
                assert_eq!(piece(&mut content).await.unwrap(), text);
            }
            let large = Bytes::from(vec![7; 3 << 20]);
            let (_, (received, trailers)) =
                tokio::join!(send(&mut body, large.clone(), true), read_to_end(&mut content));
            assert!(received == large);
            let trailers = trailers.expect("trailers");
            assert_eq!((trailers.len(), &trailers["grpc-status"]), (1, &"0".parse().unwrap()));
            assert_eq!(backend.accepted(), 1);
        },
    );
}

/// Trailers follow content of a declared length, and none.
#[test]
fn trailers_after_a_declared_length() {
    with_server(
        || H2Server::new(100, echo),
        |_| (),
        |server, backend| async move {
            let _running = backend;
            let client = connect(&server).await;
            for text in ["", "hello"] {
                let mut client = client.clone().ready().await.unwrap();
                let request = http::Request::post("http://a.example/api/x")
                    .header("content-length", text.len())
                    .header("te", "trailers")
                    .header("cookie", "a=b")
                    .body(())
                    .unwrap();
                let (response, mut body) = client.send_request(request, text.is_empty()).unwrap();
                send(&mut body, text.into(), true).await;
                let response = response.await.unwrap();
                assert_eq!(response.status(), 200, "{text}");
                assert_eq!(response.headers()["content-length"], text.len().to_string());
                let (content, trailers) = read_to_end(&mut response.into_body()).await;
                assert_eq!(content, text.as_bytes());
                // A response whose declared length is zero ends with its head.
                assert_eq!(trailers.is_some(), !text.is_empty());
            }
        },
    );
}

/// Answers when this many requests are in progress.
fn meeting(count: usize) -> impl Fn(Call) -> Served + Send + Sync + 'static {
    let (present, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    move |(_, mut respond, _)| {
        let (present, all) = (present.clone(), all.clone());
        Box::pin(async move {
            let full = all.notified();
            if present.fetch_add(1, Relaxed) + 1 == count {
                all.notify_waiters();
            } else {
                full.await;
            }
            let mut answer = respond.send_response(head(200), false).unwrap();
            answer.send_data("hello".into(), true).unwrap();
        })
    }
}

/// Sends requests at the same time; all are answered.
async fn get_together(client: &Client, count: usize) {
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { get(&client).await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), (StatusCode::OK, b"hello".to_vec()));
    }
}

#[test]
fn a_hundred_requests_share_a_connection() {
    with_server(
        || H2Server::new(200, meeting(100)),
        |_| (),
        |server, backend| async move {
            let client = connect(&server).await;
            get_together(&client, 100).await;
            assert_eq!(backend.accepted(), 1);
        },
    );
}

/// The server's limit leads to further connections, also while the first one is not open yet.
#[test]
fn further_connections_above_the_limit() {
    with_server(
        || H2Server::new(10, meeting(30)),
        |_| (),
        |server, backend| async move {
            let client = connect(&server).await;
            get_together(&client, 30).await;
            assert!((3..=5).contains(&backend.accepted()), "{}", backend.accepted());
        },
    );
}

/// Clients that do not read slow their responses down, and no others.
#[test]
fn slow_clients() {
    let sent = Arc::new(AtomicUsize::new(0));
    let start_server = || {
        sent.store(0, Relaxed);
        let sent = sent.clone();
        H2Server::new(100, move |(request, mut respond, _): Call| -> Served {
            let sent = sent.clone();
            Box::pin(async move {
                let is_large = request.method() == "POST";
                let mut answer = respond.send_response(head(200), false).unwrap();
                if !is_large {
                    answer.send_data("hello".into(), true).unwrap();
                    return;
                }
                // Ends when the client has left.
                loop {
                    answer.reserve_capacity(16_384);
                    let room = std::future::poll_fn(|context| answer.poll_capacity(context)).await;
                    let Some(Ok(room)) = room else { return };
                    sent.fetch_add(room, Relaxed);
                    if answer.send_data(vec![0; room].into(), false).is_err() {
                        return;
                    }
                }
            })
        })
    };
    with_server(
        start_server,
        |_| (),
        |server, backend| {
            let sent = sent.clone();
            async move {
                let client = connect(&server).await;
                let mut slow = Vec::new();
                for _ in 0..20 {
                    let mut client = client.clone().ready().await.unwrap();
                    slow.push(start(&mut client, "POST", false).0.await.unwrap());
                }
                let mut before = 0;
                while std::mem::replace(&mut before, sent.load(Relaxed)) != before || before == 0 {
                    sleep(Duration::from_millis(300)).await;
                }
                // The windows of both connections, and a piece and a buffer on the way.
                assert!(before <= 20 * (700 << 10), "{before} bytes");
                let other = connect(&server).await;
                let (status, content) =
                    timeout(Duration::from_secs(60), get(&other)).await.unwrap();
                assert_eq!((status, content), (StatusCode::OK, b"hello".to_vec()));
                assert_eq!(backend.accepted(), 1);
            }
        },
    );
}

/// Trailers are dropped, and no protocol can be switched to.
#[test]
fn clients_with_http1() {
    let serve = |(request, mut respond, _): Call| -> Served {
        Box::pin(async move {
            assert!(!request.headers().contains_key("te"));
            let (content, _) = read_to_end(&mut request.into_body()).await;
            let mut answer = respond.send_response(head(200), false).unwrap();
            send(&mut answer, content.into(), false).await;
            let mut trailers = HeaderMap::new();
            trailers.insert("a", "b".parse().unwrap());
            answer.send_trailers(trailers).unwrap();
        })
    };
    with_server(
        move || H2Server::new(100, serve),
        |_| (),
        |server, backend| async move {
            let text = tokio::task::spawn_blocking(move || {
                let ask = "POST /api/x HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nContent-Length: 5\r\n\r\nhello";
                let mut client = connect_plainly(&server);
                for _ in 0..2 {
                    client.write_all(ask.as_bytes()).unwrap();
                    let response = read_until(&mut client, "\r\n5\r\nhello\r\n0\r\n\r\n");
                    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
                }
                drop(client);
                all(
                    &server,
                    "GET /api/x HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
                )
            });
            let text = text.await.unwrap();
            assert!(text.starts_with("HTTP/1.1 501 "), "{text}");
            assert_eq!(backend.accepted(), 1);
        },
    );
}
