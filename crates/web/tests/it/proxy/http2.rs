//! Clients with HTTP/2.

use std::process::Command;
use std::sync::Mutex;

use phalanx_testkit::http2::Connection;

use crate::common::on_each_driver;
use crate::proxy::backend::{Backend, passing};
use crate::proxy::bodies::{LARGE, echo};
use crate::proxy::with;

/// Whether there is a curl with HTTP/2.
fn has_curl() -> bool {
    let version = Command::new("curl").arg("--version").output();
    let has = version.is_ok_and(|found| String::from_utf8_lossy(&found.stdout).contains("HTTP2"));
    if !has {
        eprintln!("SKIPPED: there is no curl with HTTP/2");
    }
    has
}

#[test]
fn a_client_with_http2() {
    if !has_curl() {
        return;
    }
    let running = Mutex::new(None);
    let start = |_: &std::path::Path| {
        let backend = Backend::new(|mut peer, _| {
            while let Some(head) = peer.head() {
                assert!(
                    head.contains("Cookie: a=b; c=d\r\n") && head.contains("Via: 2.0 "),
                    "{head}"
                );
                peer.say(match head.split(' ').nth(1).unwrap() {
                    "/api/length" => "HTTP/1.1 200 OK\r\nX-Own: 1\r\nContent-Length: 5\r\n\r\nhello",
                    _ => {
                        "HTTP/1.1 418 Teapot\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
                    }
                });
            }
        });
        let mut config = passing(backend.address, |_| ());
        config.h2c = true;
        *running.lock().unwrap() = Some(backend);
        config
    };
    on_each_driver(start, |server, _| {
        let backend = running.lock().unwrap().take().expect("it was started");
        let ask = |path: &str| {
            let url = format!("http://{}{path}", server.address);
            let mut curl = Command::new("curl");
            curl.args(["-sS", "--max-time", "30", "--http2-prior-knowledge", "-w", "%{http_code}"]);
            curl.args(["-H", "Cookie: a=b", "-H", "Cookie: c=d", &url]);
            String::from_utf8(curl.output().unwrap().stdout).unwrap()
        };
        assert_eq!(ask("/api/length"), "hello200");
        assert_eq!(ask("/api/chunks"), "hello418");
        assert_eq!(backend.accepted(), 1);
    });
}

/// With and without a declared length.
#[test]
fn bodies_of_a_client() {
    if !has_curl() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("body");
    let body: Vec<u8> = (0..LARGE).map(|n| (n ^ n >> 8) as u8).collect();
    std::fs::write(&file, &body).unwrap();
    with(
        echo,
        |_| (),
        |server, _| {
            for declared in [true, false] {
                let mut curl = Command::new("curl");
                curl.args(["-sS", "--max-time", "60", "--http2-prior-knowledge", "-T"]);
                if declared {
                    curl.arg(&file);
                } else {
                    curl.arg("-").stdin(std::fs::File::open(&file).unwrap());
                }
                let url = format!("http://{}/api", server.address);
                let output = curl.arg(url).output().unwrap();
                assert!(output.stdout == body, "{declared}: {:?}", output.stderr);
            }
        },
    );
}

const CONTENT: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":path", "/api"), (":authority", "a")];

#[test]
fn bodies_in_frames() {
    with(
        echo,
        |proxy| proxy.max_body = 10,
        |server, _| {
            let mut client = Connection::open(server.address, &[]);
            client.post(1, "/api");
            client.data(1, false, b"ab");
            client.data(1, true, b"c");
            assert_eq!(client.answer(1), (200, b"abc".to_vec()));
            // Trailers are dropped.
            client.post(3, "/api");
            client.data(3, false, b"de");
            client.headers(3, true, &[("a", "b")]);
            assert_eq!(client.answer(3), (200, b"de".to_vec()));
            // An empty body with and without a declared length.
            client.headers(5, false, &[&CONTENT[..], &[("content-length", "0")]].concat());
            client.data(5, true, b"");
            client.post(7, "/api");
            client.data(7, true, b"");
            for stream in [5, 7] {
                assert_eq!(client.answer(stream), (200, Vec::new()));
            }
            // The client waits for 100.
            client.headers(9, false, &[&CONTENT[..], &[("expect", "100-Continue")]].concat());
            client.read_until(|client| client.status(9) == Some(100));
            client.data(9, true, b"f");
            assert_eq!(client.answer(9), (200, b"f".to_vec()));
        },
    );
}

/// The end of a request may arrive in a frame of its own, behind its head. Servers get no body then.
#[test]
fn the_end_of_a_get_in_a_frame_of_its_own() {
    let backend = || {
        Backend::new(|mut peer, _| {
            while let Some(head) = peer.head() {
                let is_chunked = head.contains("Transfer-Encoding: chunked\r\n");
                assert!(is_chunked == head.starts_with("GET /api/content "), "{head}");
                if is_chunked {
                    // The content is in one chunk, or in two if the first frame arrived alone.
                    let chunks = peer.read_until("\r\n0\r\n\r\n").unwrap();
                    assert_eq!(chunks.split("\r\n").skip(1).step_by(2).collect::<String>(), "abc");
                }
                peer.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
        })
    };
    with(
        backend,
        |_| (),
        |server, _| {
            let mut client = Connection::open(server.address, &[]);
            let head = |path| {
                [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "a")]
            };
            client.headers(1, false, &head("/api/none"));
            client.data(1, true, b"");
            assert_eq!(client.answer(1), (200, vec![]));
            client.headers(3, false, &head("/api/content"));
            client.data(3, false, b"a");
            client.data(3, true, b"bc");
            assert_eq!(client.answer(3), (200, vec![]));
        },
    );
}

#[test]
fn wrong_bodies_are_refused() {
    let backend = || {
        Backend::new(|mut peer, _| {
            // The request may be reset before it is sent.
            let Some(head) = peer.head() else { return };
            assert!(!head.contains("Content-Length: 11\r\n"), "{head}");
            peer.drain();
        })
    };
    with(
        backend,
        |proxy| proxy.max_body = 10,
        |server, _| {
            let mut client = Connection::open(server.address, &[]);
            for (stream, length, content) in [(1, Some("11"), &b""[..]), (3, None, &[7; 11])] {
                let declared = length.map(|length| ("content-length", length));
                let head: Vec<_> = CONTENT.into_iter().chain(declared).collect();
                client.headers(stream, false, &head);
                client.data(stream, false, content);
                assert_eq!(client.answer(stream).0, 413, "{stream}");
                client.read_until(|client| client.reset(stream) == Some(0));
            }
            for (stream, content) in [(5, &b"ab"[..]), (7, b"abcd")] {
                client.headers(stream, false, &[&CONTENT[..], &[("content-length", "3")]].concat());
                client.data(stream, true, content);
                client.read_until(|client| client.reset(stream) == Some(1));
            }
        },
    );
}
