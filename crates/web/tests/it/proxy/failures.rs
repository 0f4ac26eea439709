//! Servers that fail.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use phalanx_testkit::http::Client;
use phalanx_testkit::tcp;

use crate::common::{all, connect, get, on_each_driver, rest};
use crate::proxy::backend::{Backend, passing};
use crate::proxy::with;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

#[test]
fn a_server_that_is_down_is_502() {
    on_each_driver(
        |_| passing(tcp::listener().1, |_| ()),
        |server, _| {
            let mut client = Client::connect(server.address);
            for _ in 0..5 {
                // Also when the only server is ejected, it is tried.
                let response = client.get("/api");
                assert_eq!(response.status, 502);
            }
            assert_eq!(client.get("/missing").status, 404, "the connection stays open");
            let text = all(server, "POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n123");
            assert!(
                text.starts_with("HTTP/1.1 502 ") && text.contains("Connection: close"),
                "{text}"
            );
        },
    );
}

#[test]
fn a_slow_server_is_504() {
    let backend = || Backend::new(|mut peer, _| peer.drain());
    with(
        backend,
        |proxy| proxy.response_timeout = Duration::from_millis(30),
        |server, _| {
            assert!(get(server, "/api").starts_with("HTTP/1.1 504 "));
            let mut client = connect(server);
            let text =
                "PUT /api HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
            client.write_all(text.as_bytes()).unwrap();
            assert!(rest(&mut client).starts_with("HTTP/1.1 504 "));
        },
    );
}

/// The server closes its connection after the first response without announcing it.
#[test]
fn requests_that_may_be_repeated_are() {
    let backend = || {
        Backend::new(|mut peer, number| {
            if peer.head().is_some() {
                peer.say(OK);
            }
            if number == 0 {
                // The second request of this connection is read, so the close races with nothing.
                peer.head();
            }
        })
    };
    with(
        backend,
        |_| (),
        |server, backend| {
            let mut client = Client::connect(server.address);
            assert_eq!(client.get("/api").text(), "hi");
            assert_eq!(client.get("/api").text(), "hi", "sent again");
            assert_eq!(backend.accepted(), 2);
        },
    );
    with(
        backend,
        |_| (),
        |server, backend| {
            let mut client = Client::connect(server.address);
            assert_eq!(client.get("/api").text(), "hi");
            client.send("POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
            let status = client.response().status;
            // On a busy machine the connection may have been unused for too long, so a new one is opened.
            assert!(
                status == 502 || backend.accepted() == 2,
                "it may have been processed: {status}"
            );
        },
    );
}

/// Another server gets the requests that one cannot take.
#[test]
fn another_server_takes_over() {
    let count = AtomicUsize::new(0);
    let backend = || {
        count.store(0, Ordering::Relaxed);
        Backend::new(|mut peer, _| {
            while peer.head().is_some() {
                peer.say(OK);
            }
        })
    };
    let down = |proxy: &mut phalanx_web::Proxy| {
        let (_, address) = tcp::listener();
        proxy.to.insert(0, format!("http://{address}").parse().unwrap());
    };
    with(backend, down, |server, _| {
        let mut client = Client::connect(server.address);
        for _ in 0..20 {
            assert_eq!(client.get("/api").status, 200);
        }
    });
}
