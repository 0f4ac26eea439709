//! Bounds on the requests in progress.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use phalanx_testkit::TIMEOUT;
use phalanx_testkit::http::Client;
use phalanx_testkit::http2::Connection;
use phalanx_web::Proxy;

use crate::common::Server;
use crate::proxy::backend::{Backend, down};
use crate::proxy::with;

/// A server that reports each request, and responds when the test allows it.
fn waiting() -> (Backend, Receiver<String>, Sender<()>) {
    let (report, reports) = channel();
    let (allow, allowed) = channel::<()>();
    let allowed = Arc::new(Mutex::new(allowed));
    let backend = Backend::new(move |mut peer, _| {
        while let Some(head) = peer.head() {
            report.send(head).unwrap();
            if allowed.lock().unwrap().recv().is_err() {
                return;
            }
            peer.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        }
    });
    (backend, reports, allow)
}

/// Sends one request that runs, one that waits and one that is refused, to servers that `change` may add. Calls
/// `meanwhile` before the first two get their responses. They take this number of connections to the server.
fn three_requests(change: impl Fn(&mut Proxy), meanwhile: impl Fn(&Server), connections: usize) {
    let parts = Mutex::new(None);
    let backend = || {
        let (backend, reports, allow) = waiting();
        *parts.lock().unwrap() = Some((reports, allow));
        backend
    };
    let change = |proxy: &mut Proxy| {
        (proxy.max_requests, proxy.max_queue) = (1, 1);
        proxy.connect_timeout = Duration::from_secs(60);
        change(proxy);
    };
    with(backend, change, |server, backend| {
        let (reports, allow) = parts.lock().unwrap().take().unwrap();
        let ask = || {
            let mut client = Client::connect(server.address);
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n");
            client
        };
        let mut first = ask();
        assert!(reports.recv_timeout(TIMEOUT).unwrap().starts_with("GET /api "));
        // Of two further requests, one waits and one is refused.
        let (ended, ends) = channel();
        let others = [ended.clone(), ended].map(|ended| {
            let mut client = ask();
            thread::spawn(move || ended.send(client.response()).unwrap())
        });
        let refused = ends.recv_timeout(TIMEOUT).unwrap();
        assert_eq!((refused.status, refused.field("Retry-After")), (503, Some("1")));
        meanwhile(server);
        let _ = (allow.send(()), allow.send(()));
        assert_eq!(first.response().text(), "hi");
        assert_eq!(ends.recv_timeout(TIMEOUT).unwrap().text(), "hi");
        assert_eq!(backend.accepted(), connections);
        drop(allow);
        others.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Connections that many requests at a time have needed are used again.
#[test]
fn rounds_of_many_requests_use_the_same_connections() {
    const REQUESTS: usize = 60;
    let parts = Mutex::new(None);
    let backend = || {
        let (backend, reports, allow) = waiting();
        *parts.lock().unwrap() = Some((reports, allow));
        backend
    };
    with(
        backend,
        |proxy| proxy.max_idle = 1,
        |server, backend| {
            let (reports, allow) = parts.lock().unwrap().take().unwrap();
            let mut clients: Vec<_> =
                (0..REQUESTS).map(|_| Client::connect(server.address)).collect();
            for _ in 0..3 {
                for client in &mut clients {
                    client.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n");
                    reports.recv_timeout(TIMEOUT).unwrap();
                }
                (0..REQUESTS).for_each(|_| allow.send(()).unwrap());
                for client in &mut clients {
                    assert_eq!(client.response().status, 200);
                }
            }
            // A round that lasts for seconds may find some closed.
            assert!(backend.accepted() < 2 * REQUESTS, "{} connections", backend.accepted());
        },
    );
}

#[test]
fn requests_wait_and_are_refused() {
    // The request that waited uses the connection of the first one.
    three_requests(|_| (), |_| (), 1);
}

/// A server that is down takes no request that waits for another one.
#[test]
fn requests_wait_beside_a_server_that_is_down() {
    let change = |proxy: &mut Proxy| {
        proxy.to.insert(0, format!("http://{}", down()).parse().unwrap());
    };
    three_requests(change, |_| (), 1);
}

/// A shutdown also completes the request that waits for a connection.
#[test]
fn requests_in_progress_are_completed_during_a_shutdown() {
    three_requests(|_| (), |server| server.control.drain(), 2);
}

/// The client cannot send more than a window of content until its request has a server, even if its method usually has
/// no content.
#[test]
fn content_of_a_waiting_request_is_not_taken() {
    let parts = Mutex::new(None);
    let backend = || {
        let ((report, reports), (allow, allowed)) = (channel(), channel::<()>());
        let allowed = Arc::new(Mutex::new(allowed));
        *parts.lock().unwrap() = Some((reports, allow));
        Backend::new(move |mut peer, _| {
            while let Some(head) = peer.head() {
                if head.contains("Transfer-Encoding: chunked\r\n") {
                    peer.read_until("\r\n0\r\n\r\n").unwrap();
                } else {
                    report.send(()).unwrap();
                    let _ = allowed.lock().unwrap().recv();
                }
                peer.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
            }
        })
    };
    let change = |proxy: &mut Proxy| (proxy.max_requests, proxy.max_queue) = (1, 1);
    with(backend, change, |server, _| {
        let (reports, allow) = parts.lock().unwrap().take().unwrap();
        let mut first = Client::connect(server.address);
        first.send("GET /api HTTP/1.1\r\nHost: a\r\n\r\n");
        reports.recv_timeout(TIMEOUT).unwrap();
        let mut client = Connection::open(server.address, &[]);
        let head =
            [(":method", "GET"), (":scheme", "http"), (":path", "/api"), (":authority", "a")];
        client.headers(1, false, &head);
        for length in [16_384, 16_384, 16_384, 16_383] {
            client.data(1, false, &vec![b'a'; length]);
        }
        // Once it waits, there is no place for another.
        for stream in (3..).step_by(2) {
            client.get(stream, "/api");
            if client.answer(stream).0 == 503 {
                break;
            }
        }
        assert_eq!(client.opened(1), 0);
        allow.send(()).unwrap();
        client.data(1, true, b"");
        assert_eq!(client.answer(1), (200, b"hi".to_vec()));
        assert_eq!(first.response().text(), "hi");
    });
}
