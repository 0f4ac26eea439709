//! Graceful shutdown: requests in progress complete, and no new ones begin.

use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phalanx_testkit::bytes::{assert_same, random_bytes};
use phalanx_testkit::eventually;
use phalanx_testkit::http::{Client, End, Response};
use phalanx_testkit::site::Site;
use rustix::process::Signal;

use crate::on_each_driver;
use crate::server::Server;
use crate::web::connections::slow_clients::slow_client;

on_each_driver!(
    interrupted,
    terminated,
    a_partial_request_is_answered,
    the_second_signal_ends_it,
    the_deadline_ends_it,
    without_connections,
    under_load,
);

/// Longer than tests wait: the server does not end because of this timeout.
const PATIENT: &[&str] = &["--shutdown-timeout", "600s"];
/// More than the socket buffers hold.
const LARGE: usize = 24 << 20;

fn site() -> Site {
    let site = Site::new();
    site.file("large", random_bytes(1, LARGE));
    site.file("small", "small");
    site
}

fn interrupted(driver: &'static str) {
    requests_in_progress_complete(driver, Signal::INT);
}

fn terminated(driver: &'static str) {
    requests_in_progress_complete(driver, Signal::TERM);
}

/// Waits until the server does not listen any more.
fn refuses(server: &Server) {
    eventually("a refused connection", || TcpStream::connect(server.address).err());
}

fn requests_in_progress_complete(driver: &str, signal: Signal) {
    let site = site();
    // A busy machine may stall an operation, which the server would report on stderr.
    let arguments = ["--shutdown-timeout", "600s", "--stall-threshold", "0"];
    let mut server = Server::start_apart(driver, &site.root(), &arguments);
    let mut idle: Vec<_> = (0..10).map(|_| Client::connect(server.address)).collect();
    for client in &mut idle[..5] {
        assert_eq!(client.get("/small").status, 200);
    }
    let mut slow = slow_client(server.address, "/large");
    server.signal(signal);
    for client in &mut idle {
        // Closed in order, or reset if it was not accepted yet, but long before any timeout.
        let (bytes, _) = client.read_to_end();
        assert!(bytes.is_empty());
    }
    refuses(&server);
    assert!(server.is_running(), "it waits for the download");
    let response = slow.response();
    assert_same(&response.body, &random_bytes(1, LARGE));
    slow.expect_close();
    server.expect_success();
    assert_eq!(server.stderr(), "");
}

fn a_partial_request_is_answered(driver: &'static str) {
    let site = site();
    let mut server = Server::start_apart(driver, &site.root(), PATIENT);
    let mut client = Client::connect(server.address);
    // Two requests, to be sure that the server has received the beginning of the second.
    client.send("GET /small HTTP/1.1\r\nHost: t\r\n\r\nGET /small HTTP/1.1\r\nHo");
    assert_eq!(client.response().body, b"small");
    server.signal(Signal::INT);
    refuses(&server);
    client.send("st: t\r\n\r\n");
    let response = client.response();
    assert_eq!(response.body, b"small");
    assert!(response.has_connection_close(), "no further requests");
    client.expect_close();
    server.expect_success();
}

fn the_second_signal_ends_it(driver: &'static str) {
    let site = site();
    let mut server = Server::start_apart(driver, &site.root(), PATIENT);
    let mut slow = slow_client(server.address, "/large");
    server.signal(Signal::INT);
    refuses(&server);
    assert!(server.is_running());
    server.signal(Signal::TERM);
    server.expect_success();
    assert!(slow.read_to_end().0.len() < LARGE, "truncated");
}

fn the_deadline_ends_it(driver: &'static str) {
    let site = site();
    let mut server = Server::start_apart(driver, &site.root(), &["--shutdown-timeout", "1s"]);
    let mut slow = slow_client(server.address, "/large");
    let start = Instant::now();
    server.signal(Signal::INT);
    server.expect_success();
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_millis(900), "{elapsed:?}");
    assert!(slow.read_to_end().0.len() < LARGE, "truncated");
    // With a shutdown timeout of zero.
    let mut server = Server::start_apart(driver, &site.root(), &["--shutdown-timeout", "0"]);
    let _slow = slow_client(server.address, "/large");
    server.signal(Signal::INT);
    server.expect_success();
}

fn without_connections(driver: &'static str) {
    let site = site();
    for signal in [Signal::INT, Signal::TERM] {
        let mut server = Server::start_apart(driver, &site.root(), PATIENT);
        server.signal(signal);
        server.expect_success();
    }
}

/// Clients that send requests continuously get complete responses until they get none.
fn under_load(driver: &'static str) {
    let site = site();
    site.file("middle", random_bytes(2, 100_000));
    let mut server = Server::start(driver, &site.root());
    let address = server.address;
    let answers: [AtomicUsize; 4] = Default::default();
    thread::scope(|scope| {
        for answers in &answers {
            scope.spawn(move || {
                let expected = random_bytes(2, 100_000);
                while let Some(response) = one_request(address) {
                    assert_same(&response.body, &expected);
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        eventually("answers of each kind", || {
            answers.iter().all(|answers| answers.load(Ordering::Relaxed) > 5).then_some(())
        });
        server.signal(Signal::TERM);
        server.expect_success();
    });
}

/// `None` if the connection is refused, or closed before the first byte of a response.
fn one_request(address: std::net::SocketAddr) -> Option<Response> {
    let mut client = Client::from_stream(TcpStream::connect(address).ok()?);
    let request = "GET /middle HTTP/1.1\r\nHost: test\r\n\r\n";
    std::io::Write::write_all(&mut client.stream, request.as_bytes()).ok()?;
    match client.read_more() {
        Ok(0) | Err(_) => None,
        Ok(_) => {
            let response = client.response();
            if response.has_connection_close() {
                assert_eq!(client.read_to_end(), (Vec::new(), End::Closed));
            }
            Some(response)
        }
    }
}
