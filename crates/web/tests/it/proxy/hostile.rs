//! Servers that close the connection at any point, or send something that is not a response.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use phalanx_testkit::TIMEOUT;
use phalanx_testkit::http::Client;

use crate::common::{all, get};
use crate::proxy::backend::Backend;
use crate::proxy::with;

/// Responses, each of which a server sends only in part.
const WHOLE: [&str; 2] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
];

/// The path is the number of the response, and of the bytes that are sent.
#[test]
fn closes_at_every_point() {
    let backend = || {
        Backend::new(|mut peer, _| {
            let Some(head) = peer.head() else { return };
            let numbers: Vec<usize> =
                head.split(['/', ' ']).filter_map(|n| n.parse().ok()).collect();
            peer.say(&WHOLE[numbers[0]][..numbers[1]]);
        })
    };
    with(
        backend,
        |_| (),
        |server, _| {
            for (n, whole) in WHOLE.iter().enumerate() {
                let head = whole.find("\r\n\r\n").unwrap() + 4;
                for length in 0..=whole.len() {
                    let text = all(
                        server,
                        &format!(
                            "GET /api/{n}/{length} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
                        ),
                    );
                    if length < head {
                        assert!(text.starts_with("HTTP/1.1 502 "), "{n} {length}: {text}");
                        continue;
                    }
                    assert!(text.starts_with("HTTP/1.1 200 "), "{n} {length}: {text}");
                    // A client recognizes an incomplete response.
                    let is_complete =
                        text.ends_with(if n == 0 { "\r\n\r\nhello" } else { "\r\n0\r\n\r\n" });
                    assert_eq!(is_complete, length == whole.len(), "{n} {length}: {text}");
                }
            }
        },
    );
}

#[test]
fn malformed_responses_are_502() {
    let heads = [
        "SSH-2.0-x\r\n\r\n".to_owned(),
        "HTTP/2.0 200 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 20 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nA b: c\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\n folded: b\r\n\r\n".to_owned(),
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n".to_owned(),
        "HTTP/1.1 100 Continue\r\n\r\n".repeat(3000),
        format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(70_000)),
        format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(200)),
    ];
    let count = heads.len();
    let backend = move || {
        let heads = heads.clone();
        Backend::new(move |mut peer, _| {
            let Some(head) = peer.head() else { return };
            let number = head.split(['/', ' ']).find_map(|n| n.parse::<usize>().ok()).unwrap();
            peer.say(&heads[number]);
            // The proxy closes the connection.
            peer.drain();
        })
    };
    with(
        backend,
        |_| (),
        |server, _| {
            for number in 0..count {
                let text = get(server, &format!("/api/{number}"));
                assert!(text.starts_with("HTTP/1.1 502 "), "{number}: {text}");
            }
        },
    );
}

/// A second response to one request does not answer the next request.
#[test]
fn a_response_too_many_is_dropped() {
    let backend = || {
        Backend::new(|mut peer, number| {
            let Some(_) = peer.head() else { return };
            peer.say(format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}").repeat(2));
            // The proxy closes the connection.
            peer.drain();
        })
    };
    with(
        backend,
        |_| (),
        |server, _| {
            for number in 0..5 {
                let text = get(server, "/api");
                assert!(text.ends_with(&format!("\r\n\r\n{number}")), "{number}: {text}");
            }
        },
    );
}

/// A response that arrives while the connection is unused does not answer the next request, and neither does a body
/// after a response that has none.
#[test]
fn a_late_response_is_dropped() {
    let parts = Mutex::new(None);
    let backend = || {
        let ((allow, allowed), (report, reports)) = (channel::<()>(), channel());
        *parts.lock().unwrap() = Some((allow, reports));
        let allowed = Mutex::new(allowed);
        Backend::new(move |mut peer, number| {
            let Some(head) = peer.head() else { return };
            let response = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
            let whole = if head.starts_with("HEAD ") { response.len() - 1 } else { response.len() };
            peer.say(&response[..whole]);
            if allowed.lock().unwrap().recv_timeout(TIMEOUT).is_err() {
                return;
            }
            peer.say(if number % 2 == 0 { &response[..] } else { "x" });
            report.send(()).unwrap();
            // The proxy closes the connection.
            peer.drain();
        })
    };
    with(
        backend,
        |_| (),
        |server, backend| {
            let (allow, reports) = parts.lock().unwrap().take().unwrap();
            let mut client = Client::connect(server.address);
            for number in 0..4 {
                match number % 2 {
                    0 => assert_eq!(client.get("/api").text(), number.to_string()),
                    _ => assert_eq!(client.head_with("/api", "").status, 200),
                }
                allow.send(()).unwrap();
                reports.recv_timeout(TIMEOUT).unwrap();
            }
            assert_eq!(backend.accepted(), 4);
        },
    );
}
