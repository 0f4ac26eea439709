//! Connections: reuse, the drain, and clients that leave.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use phalanx_axum::Options;
use phalanx_testkit::within_limit;

use crate::harness::{read_text, read_until, served, served_with};

#[test]
fn one_connection_serves_many_requests() {
    within_limit(|| {
        let server = served(Router::new().route("/", get(|| async { "yes" })));
        let mut client = server.connect();
        for _ in 0..3 {
            client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
            read_until(&mut client, "yes");
        }
        // Two at once.
        client.write_all(&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2)).unwrap();
        read_until(&mut client, "yes");
        read_until(&mut client, "yes");
    });
}

#[test]
fn the_drain_ends_idle_connections_and_completes_requests() {
    within_limit(|| {
        let (sender, receiver) = channel();
        let slow = move || {
            let sender = sender.clone();
            async move {
                sender.send(()).unwrap();
                phalanx::sleep(Duration::from_millis(100)).await;
                "done"
            }
        };
        let app = Router::new().route("/", get(|| async { "yes" })).route("/slow", get(slow));
        let server = served(app);
        let mut idle = server.connect();
        idle.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        read_until(&mut idle, "yes");
        let mut busy = server.connect();
        busy.write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        receiver.recv().unwrap();
        server.control.drain();
        assert_eq!(read_text(&mut idle), "");
        let answer = read_text(&mut busy);
        assert!(answer.ends_with("\r\n\r\ndone"), "{answer}");
    });
}

/// More content than is read, and more than the kernel buffers.
#[test]
fn a_client_that_still_sends_gets_the_response() {
    within_limit(|| {
        let read = async |_: axum::body::Bytes| "read";
        let server =
            served(Router::new().route("/", post(read)).route("/ignored", post(async || "yes")));
        for (path, answer) in [("/", "413 Payload Too Large"), ("/ignored", "200 OK")] {
            let mut client = server.connect();
            let head =
                format!("POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
            client.write_all(head.as_bytes()).unwrap();
            let chunk = [&b"10000\r\n"[..], &[b'a'; 0x10000], b"\r\n"].concat();
            for _ in 0..400 {
                client.write_all(&chunk).unwrap();
            }
            client.write_all(b"0\r\n\r\n").unwrap();
            let text = read_text(&mut client);
            assert!(text.starts_with(&format!("HTTP/1.1 {answer}\r\n")), "{text}");
        }
    });
}

/// Sets the flag when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn the_handler_of_a_client_that_leaves_is_dropped() {
    within_limit(|| {
        let dropped = Arc::new(AtomicBool::new(false));
        let (flag, (sender, receiver)) = (dropped.clone(), channel());
        let forever = move || {
            let (guard, sender) = (Dropped(flag.clone()), sender.clone());
            async move {
                sender.send(()).unwrap();
                std::future::pending::<()>().await;
                drop(guard);
            }
        };
        // The router holds a guard of its own only within a request.
        let server = served(Router::new().route("/", get(forever)));
        let mut client = server.connect();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        receiver.recv().unwrap();
        drop(client);
        while !dropped.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

#[test]
fn a_slow_head_times_out() {
    within_limit(|| {
        let app = Router::new().route("/", get(|| async { "yes" }));
        let options = Options::new().header_timeout(Duration::from_millis(50));
        let server = served_with(app, |server| server.processors(1).options(options));
        let mut client = server.connect();
        client.write_all(b"GET / HTTP/1.1\r\nhost:").unwrap();
        let answer = read_text(&mut client);
        assert!(!answer.contains("200 OK"), "{answer}");
    });
}
