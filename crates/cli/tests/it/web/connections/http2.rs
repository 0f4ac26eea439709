//! HTTP/2 at the level of frames (RFC 9113), including frames that well-behaved clients do not send.
//!
//! Over TCP without TLS, so that the test controls the bytes. `tls.rs` tests HTTP/2 with curl and TLS.

use std::process::Command;

use phalanx_testkit::authority::Authority;
use phalanx_testkit::bytes::{assert_same, random_bytes};
use phalanx_testkit::eventually;
use phalanx_testkit::http::Client;
use phalanx_testkit::http2::{Connection, Frame, kind};
use phalanx_testkit::site::Site;
use rustix::process::Signal;

use crate::on_each_driver;
use crate::server::Server;
use crate::web::admin::snapshots::snapshot;

on_each_driver!(
    concurrent_requests,
    within_the_window,
    bodies,
    malformed_requests,
    ping_floods,
    rapid_reset,
    idle,
    drained,
    disabled_by_default,
    by_the_conformance_suite,
);

const NO_ERROR: u32 = 0;
const PROTOCOL_ERROR: u32 = 1;
const ENHANCE_YOUR_CALM: u32 = 11;

/// A small file and one of a mebibyte.
pub(crate) fn site() -> Site {
    let site = Site::new();
    site.file("small", "small");
    site.file("large", random_bytes(1, 1 << 20));
    site
}

/// A server with HTTP/2 without TLS.
pub(crate) fn start(driver: &str, site: &Site, args: &[&str]) -> Server {
    Server::start_with(driver, &site.root(), &[&["--h2c"], args].concat())
}

fn concurrent_requests(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, &[]);
    let mut client = Connection::open(server.address, &[]);
    let streams: Vec<u32> = (0..50).map(|n| 2 * n + 1).collect();
    for stream in &streams {
        client.get(*stream, "/small");
    }
    for stream in &streams {
        assert_eq!(client.answer(*stream), (200, b"small".to_vec()));
    }
    // A large response does not delay a small one that was requested later: its window is exhausted, while the
    // small one has its own, and the connection window has room for both.
    client.send(kind::WINDOW_UPDATE, 0, 0, &(1_u32 << 20).to_be_bytes());
    client.get(101, "/large");
    client.get(103, "/none");
    assert_eq!(client.answer(103).0, 404);
    assert_eq!(client.open_windows_and_answer(101).0, 200);
}

fn within_the_window(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, &[]);
    // SETTINGS_INITIAL_WINDOW_SIZE
    let mut client = Connection::open(server.address, &[(4, 1000)]);
    client.get(1, "/large");
    client.read_until(|client| client.content(1).len() == 1000);
    client.send(kind::PING, 0, 0, &[7; 8]);
    client.read_until(|client| client.pongs == 1);
    assert_eq!(client.content(1).len(), 1000, "no byte beyond the window");
    client.send(kind::WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes());
    client.read_until(|client| client.content(1).len() == 1001);
    let (status, body) = client.open_windows_and_answer(1);
    assert_eq!(status, 200);
    assert_same(&body, &random_bytes(1, 1 << 20));
}

fn bodies(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, &[]);
    let mut client = Connection::open(server.address, &[]);
    client.post(1, "/small");
    client.send(kind::DATA, 0, 1, b"some");
    client.send(kind::DATA, 1, 1, b"thing");
    assert_eq!(client.answer(1).0, 405);
    // Larger than the limit for unread bodies, in frames of the maximum size.
    client.post(3, "/small");
    for _ in 0..5 {
        client.send(kind::DATA, 0, 3, &[0; 16_000]);
    }
    assert_eq!(client.answer(3).0, 413);
    client.get(5, "/small");
    assert_eq!(client.answer(5).0, 200);
}

fn malformed_requests(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, &[]);
    let mut client = Connection::open(server.address, &[]);
    // A second host, an invalid path, a connection-specific field: only the stream is reset.
    let fields: [&[(&str, &str)]; 3] = [
        &[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "a"),
            ("host", "b"),
        ],
        &[(":method", "GET"), (":scheme", "http"), (":authority", "a")],
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("connection", "close")],
    ];
    for (n, fields) in fields.iter().enumerate() {
        let stream = 2 * n as u32 + 1;
        client.headers(stream, true, fields);
        client.read_until(|client| client.reset(stream).is_some());
        assert_eq!(client.reset(stream), Some(PROTOCOL_ERROR), "{fields:?}");
    }
    client.get(7, "/small");
    assert_eq!(client.answer(7).0, 200);
    // A frame of an unopened stream: a connection error.
    client.send(kind::DATA, 0, 11, b"x");
    assert_eq!(client.goaway_code(), PROTOCOL_ERROR);
}

fn ping_floods(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, &["--admin", "127.0.0.1:0"]);
    let mut client = Connection::open(server.address, &[]);
    let ping = Frame { kind: kind::PING, flags: 0, stream: 0, payload: vec![1; 8] }.bytes();
    client.send_bytes(&ping.repeat(1200));
    assert_eq!(client.goaway_code(), ENHANCE_YOUR_CALM);
    eventually("a count", || {
        let snapshot = snapshot(server.admin());
        let counters = snapshot["counters"].as_array().unwrap();
        let floods = counters.iter().find(|it| {
            it["name"] == "phalanx_web_http2_floods" && it["label"][1] == "control-frames"
        });
        (floods.unwrap()["count"] == 1).then_some(())
    });
    assert_eq!(Client::connect(server.address).get("/small").status, 200);
}

fn rapid_reset(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, &[]);
    let mut client = Connection::open(server.address, &[]);
    for n in 0..1200 {
        client.get(2 * n + 1, "/large");
        client.send(kind::RST_STREAM, 0, 2 * n + 1, &8_u32.to_be_bytes());
    }
    assert_eq!(client.goaway_code(), ENHANCE_YOUR_CALM);
    assert_eq!(Client::connect(server.address).get("/small").status, 200);
}

fn idle(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, &["--idle-timeout", "3s"]);
    let mut client = Connection::open(server.address, &[]);
    client.get(1, "/small");
    assert_eq!(client.answer(1).0, 200);
    assert_eq!(client.goaway_code(), NO_ERROR);
}

fn drained(driver: &'static str) {
    let site = site();
    let mut server = start(driver, &site, &["--shutdown-timeout", "60s"]);
    let mut client = Connection::open(server.address, &[]);
    client.get(1, "/large");
    client.read_until(|client| !client.content(1).is_empty());
    server.signal(Signal::TERM);
    client.read_until(|client| client.goaway_codes.contains(&NO_ERROR));
    assert!(server.is_running(), "it waits for the download");
    let (status, body) = client.open_windows_and_answer(1);
    assert_eq!(status, 200);
    assert_same(&body, &random_bytes(1, 1 << 20));
    assert_eq!(client.goaway_code(), NO_ERROR);
    server.expect_success();
}

fn disabled_by_default(driver: &'static str) {
    let site = site();
    let server = Server::start(driver, &site.root());
    let mut client = Client::connect(server.address);
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(client.response().status, 505);
}

/// If `h2spec` is installed; `PHALANX_H2SPEC` may name it.
fn by_the_conformance_suite(driver: &'static str) {
    let program = std::env::var("PHALANX_H2SPEC").unwrap_or_else(|_| "h2spec".into());
    let site = site();
    // With TLS: without it, bytes that are not an HTTP/2 preface are taken for HTTP/1.1.
    let authority = Authority::new();
    let pair = authority.sign("a", &["a.test"]);
    let server = Server::start_with(driver, &site.root(), &pair.arguments());
    let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
    let output = Command::new(program)
        .args(["-h", &host, "-p", &port, "-t", "-k", "-P", "/small", "--timeout", "10"])
        .output();
    let Ok(output) = output else {
        println!("skipped: there is no h2spec");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
