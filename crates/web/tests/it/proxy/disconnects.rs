//! Clients that leave before their response is complete: the server's connection closes, and its slot is free.

use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use phalanx_testkit::http2::Connection;
use phalanx_testkit::{TIMEOUT, eventually, tcp};
use phalanx_web::{AccessLog, LogFormat, LogTarget};

use crate::common::{Server, get, metric, on_each_driver};
use crate::proxy::backend::{Backend, Peer, passing};
use crate::proxy::with;

/// How far a request is when its client leaves, as its path says.
const STATES: [&str; 3] = ["/api/head", "/api/body", "/api/response"];

/// Reads a request up to its state, reports this, and waits until the proxy closes the connection.
fn serve(peer: &mut Peer, arrived: &dyn Fn()) {
    let head = peer.head().expect("a request");
    match head.split(' ').nth(1).expect("a path") {
        "/api/body" => drop(peer.read_until("a")),
        "/api/response" => peer.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nb"),
        "/api/done" => {
            return peer.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        }
        _ => (),
    }
    arrived();
    peer.drain();
}

/// Runs `test` with a server that reports when a request is in its state, and when the connection has been closed.
fn leaving(change: fn(&mut phalanx_web::Proxy), test: impl Fn(&Server, &dyn Fn(bool))) {
    let reports: Mutex<Option<Receiver<bool>>> = Mutex::new(None);
    let backend = || {
        let (report, receiver) = channel();
        *reports.lock().unwrap() = Some(receiver);
        Backend::new(move |mut peer, _| {
            serve(&mut peer, &|| report.send(false).unwrap());
            // The test may be over.
            let _ = report.send(true);
        })
    };
    with(backend, change, |server, _| {
        let reports = reports.lock().unwrap().take().expect("it was started");
        test(server, &|closed| assert_eq!(reports.recv_timeout(TIMEOUT), Ok(closed)));
    });
}

#[test]
fn over_http1() {
    leaving(
        |_| (),
        |server, wait| {
            for path in STATES {
                let mut client = tcp::connect(server.address);
                let body = if path == "/api/body" { "Content-Length: 9\r\n\r\na" } else { "\r\n" };
                let request = format!("PUT {path} HTTP/1.1\r\nHost: a\r\n{body}");
                client.write_all(request.as_bytes()).unwrap();
                wait(false);
                drop(client);
                wait(true);
            }
        },
    );
}

#[test]
fn over_http2() {
    leaving(
        |_| (),
        |server, wait| {
            let mut client = Connection::open(server.address, &[]);
            for (n, path) in STATES.into_iter().enumerate() {
                let stream = 2 * n as u32 + 1;
                client.post(stream, path);
                client.data(stream, path != "/api/body", b"a");
                wait(false);
                client.cancel(stream);
                wait(true);
            }
            client.get(7, "/api/done");
            assert_eq!(client.answer(7).0, 200);
            wait(true);
            assert!([1, 3, 5].iter().all(|stream| client.reset(*stream).is_none()), "no answer");
            // The connection is lost.
            client.get(9, "/api/head");
            client.post(11, "/api/body");
            client.data(11, false, b"a");
            wait(false);
            wait(false);
            drop(client);
            wait(true);
            wait(true);
        },
    );
}

/// The only slot is in use.
#[test]
fn while_they_wait_for_a_slot() {
    leaving(
        |proxy| (proxy.max_requests, proxy.max_queue) = (1, 1),
        |server, wait| {
            let mut client = Connection::open(server.address, &[]);
            client.get(1, "/api/head");
            wait(false);
            for stream in [3, 7, 11] {
                client.get(stream, "/api/head");
                // There is room for one in the queue.
                client.get(stream + 2, "/api/head");
                assert_eq!(client.answer(stream + 2).0, 503);
                client.cancel(stream);
            }
            client.cancel(1);
            wait(true);
            assert!(get(server, "/api/done").starts_with("HTTP/1.1 200 "));
            wait(true);
        },
    );
}

/// Requests without a response are counted and logged with the status 499.
#[test]
fn before_any_response() {
    let running = Mutex::new(None);
    on_each_driver(
        |home| {
            let (report, reports) = channel();
            let backend = Backend::new(move |mut peer, _| {
                serve(&mut peer, &|| report.send(false).unwrap());
            });
            let mut config = passing(backend.address, |_| ());
            let target = LogTarget::File(home.join("log"));
            config.access_log = Some(AccessLog { format: LogFormat::Common, target });
            config.runtime.admin = Some((Ipv4Addr::LOCALHOST, 0).into());
            config.h2c = true;
            *running.lock().unwrap() = Some((backend, reports));
            config
        },
        |server, home| {
            let (backend, reports) = running.lock().unwrap().take().expect("it was started");
            let mut client = tcp::connect(server.address);
            client.write_all(b"GET /api/head HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            assert_eq!(reports.recv_timeout(TIMEOUT), Ok(false));
            drop(client);
            let name = "http_requests_total{code=\"499\"}";
            eventually(name, || metric(server, name).filter(|count| *count == 1));
            let line = eventually("a line in the log", || {
                let text = std::fs::read_to_string(home.join("log")).unwrap_or_default();
                text.lines().next().map(str::to_owned)
            });
            assert!(line.ends_with("\"GET /api/head HTTP/1.1\" 499 0"), "{line}");
            // This client leaves while the server receives the body of a request that is not forwarded.
            let mut client = Connection::open(server.address, &[]);
            client.post(1, "/file");
            client.data(1, false, b"a");
            client.get(3, "/none");
            assert_eq!(client.answer(3).0, 404);
            client.cancel(1);
            eventually(name, || metric(server, name).filter(|count| *count == 2));
            eventually("another line in the log", || {
                let text = std::fs::read_to_string(home.join("log")).unwrap_or_default();
                text.lines()
                    .any(|line| line.contains("POST /file") && line.ends_with(" 499 0"))
                    .then_some(())
            });
            drop(backend);
        },
    );
}
