//! Servers at the level of frames, with TLS and without.

use std::io::{Read, Write};
use std::sync::Mutex;

use phalanx_testkit::http2::Connection;

use crate::common::{Server, get, metric, on_each_driver};
use crate::proxy::backend::{Backend, Peer, passing};
use crate::proxy::tls::{with_protocols, with_tls_at};

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// The field block of a head with status 200.
const OK: &[u8] = b"\x88";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// The stream of the next request; `None` if the proxy closes the connection.
fn request(session: &mut impl Read) -> Option<u32> {
    loop {
        let mut header = [0; 9];
        session.read_exact(&mut header).ok()?;
        let [a, b, c, kind, _, stream @ ..] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        session.read_exact(&mut payload).ok()?;
        if kind == HEADERS {
            return Some(u32::from_be_bytes(stream));
        }
    }
}

/// Reads the client's preface, and sends SETTINGS.
fn begin(session: &mut (impl Read + Write)) {
    let mut preface = [0; 24];
    session.read_exact(&mut preface).unwrap();
    assert_eq!(&preface[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    session.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
}

/// Answers all requests of a connection without content.
fn answer(session: &mut (impl Read + Write)) {
    while let Some(stream) = request(session) {
        session.write_all(&frame(HEADERS, 5, stream, OK)).unwrap();
    }
}

fn with_frames(
    serve: impl Fn(&mut Peer, usize) + Send + Sync + Copy + 'static,
    test: impl Fn(&Server, &Backend),
) {
    let running = Mutex::new(None);
    let config = |_: &std::path::Path| {
        let backend = Backend::new(move |mut peer, number| serve(&mut peer, number));
        let to = vec![format!("h2c://{}", backend.address).parse().unwrap()];
        let mut config = passing(backend.address, |proxy| proxy.to = to.clone());
        config.h2c = true;
        config.runtime.admin = Some((std::net::Ipv4Addr::LOCALHOST, 0).into());
        *running.lock().unwrap() = Some(backend);
        config
    };
    on_each_driver(config, |server, _| {
        let backend = running.lock().unwrap().take().expect("it was started");
        test(server, &backend);
    });
}

/// GOAWAY announces the last stream that the server processes. The others are sent again.
#[test]
fn requests_above_the_last_stream() {
    let serve = |peer: &mut Peer, number: usize| {
        let session = &mut peer.stream;
        begin(session);
        if number > 0 {
            return answer(session);
        }
        let (first, second) = (request(session).unwrap(), request(session).unwrap());
        let goaway = [&first.to_be_bytes()[..], &[0; 4]].concat();
        session.write_all(&frame(GOAWAY, 0, 0, &goaway)).unwrap();
        assert!(first < second);
        // The first one is answered nevertheless.
        session.write_all(&frame(HEADERS, 5, first, OK)).unwrap();
        assert_eq!(request(session), None, "the connection gets no further requests");
    };
    with_frames(serve, |server, backend| {
        let mut client = Connection::open(server.address, &[]);
        client.post(1, "/api/a");
        client.data(1, true, b"a");
        client.post(3, "/api/b");
        client.data(3, true, b"b");
        for stream in [1, 3] {
            assert_eq!(client.answer(stream), (200, Vec::new()));
        }
        assert_eq!(backend.accepted(), 2);
        assert_eq!(metric(server, "http_upstream_retries_total"), Some(1));
    });
}

/// An unused connection that the server closes is replaced, and requests that may have been processed are not repeated.
#[test]
fn connections_that_the_server_closes() {
    let serve = |peer: &mut Peer, number: usize| {
        let session = &mut peer.stream;
        begin(session);
        let stream = request(session).unwrap();
        if number == 2 {
            return;
        }
        session.write_all(&frame(HEADERS, 5, stream, OK)).unwrap();
        // The next request is not answered.
        let _ = request(session);
    };
    with_frames(serve, |server, backend| {
        let mut client = Connection::open(server.address, &[]);
        client.get(1, "/api");
        assert_eq!(client.answer(1), (200, Vec::new()));
        client.get(3, "/api");
        assert_eq!(client.answer(3), (200, Vec::new()), "sent again");
        assert_eq!(backend.accepted(), 2);
        client.post(5, "/api");
        client.data(5, true, b"a");
        assert_eq!(client.answer(5).0, 502);
        assert_eq!(backend.accepted(), 2);
        client.get(7, "/api");
        assert_eq!(client.answer(7).0, 502, "no answer on a new connection");
    });
}

#[test]
fn a_server_without_http2() {
    let serve = |peer: &mut Peer, _: usize| {
        let mut preface = [0; 24];
        if peer.stream.read_exact(&mut preface).is_ok() {
            peer.say("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
    };
    with_frames(serve, |server, _| {
        let response = get(server, "/api");
        assert!(response.starts_with("HTTP/1.1 502 "), "{response}");
        let name = "http_upstream_failures_total{reason=\"connect\"}";
        assert_eq!(metric(server, name), Some(1));
    });
}

/// ALPN selects HTTP/2.
#[test]
fn servers_with_tls() {
    for (protocols, status) in [(&[&b"h2"[..]][..], 200), (&[b"http/1.1"], 502), (&[], 502)] {
        with_tls_at(
            "h2",
            |authority| {
                with_protocols(authority, protocols, |mut session, _| {
                    // The handshake fails if no protocol is common.
                    if session.conn.complete_io(&mut session.sock).is_ok()
                        && session.conn.alpn_protocol() == Some(b"h2")
                    {
                        begin(&mut session);
                        answer(&mut session);
                    }
                })
            },
            |server, _| {
                let response = get(server, "/api");
                assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
            },
        );
    }
}
