//! Timeouts of the server.

use std::io::Write;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use phalanx_testkit::bytes::{assert_same, random_bytes};
use phalanx_testkit::eventually;
use phalanx_testkit::http::Client;
use phalanx_testkit::site::Site;

use crate::on_each_driver;
use crate::server::Server;

on_each_driver!(unfinished_requests, idle_connections);

/// Timeouts are checked every 100 ms, and a loaded machine may stall for longer.
const SLACK: Duration = Duration::from_secs(10);

fn site() -> Site {
    let site = Site::new();
    site.file("file", "content");
    site.file("large", random_bytes(1, 24 << 20));
    site
}

/// Checks that about a second has passed.
#[track_caller]
fn about_a_second(start: Instant) {
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_millis(900), "after {elapsed:?} already");
    assert!(elapsed < Duration::from_secs(1) + SLACK, "after {elapsed:?} only");
}

fn unfinished_requests(driver: &'static str) {
    let site = site();
    let server = Server::start_with(driver, &site.root(), &["--request-timeout", "1s"]);
    let timed_out = |mut client: Client, start| {
        let response = client.response();
        assert_eq!(response.status, 408);
        assert!(response.has_connection_close());
        about_a_second(start);
        client.expect_close();
    };
    thread::scope(|scope| {
        let connect = || (Client::connect(server.address), Instant::now());
        scope.spawn(move || {
            let (mut client, start) = connect();
            client.send("GET /file HT");
            timed_out(client, start);
        });
        scope.spawn(move || {
            // One timeout for the whole request, however slowly it arrives (slow loris).
            let (mut client, start) = connect();
            client.stream.set_nonblocking(false).unwrap();
            for byte in b"GET /file HTTP/1.1\r\nX: y" {
                let sent = client.stream.write(&[*byte]);
                thread::sleep(Duration::from_millis(100));
                if sent.is_err() {
                    break;
                }
            }
            timed_out(client, start);
        });
        scope.spawn(move || {
            // After a complete request: it is answered, and the second one has its own timeout.
            let (mut client, _) = connect();
            assert_eq!(client.get("/file").status, 200);
            thread::sleep(Duration::from_millis(500));
            let start = Instant::now();
            client.send("GET /file HTTP/1.1\r\nHost: t\r\n\r\nGET /f");
            assert_eq!(client.response().body, b"content");
            timed_out(client, start);
        });
        scope.spawn(move || {
            // A body that never arrives; its request was answered already.
            let (mut client, start) = connect();
            client.send("POST /file HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nabc");
            assert_eq!(client.response().status, 405);
            client.expect_close();
            about_a_second(start);
        });
        scope.spawn(move || {
            // Without any bytes there is no request, so the request timeout does not apply.
            let (mut client, _) = connect();
            thread::sleep(Duration::from_millis(1500));
            assert_eq!(client.get("/file").body, b"content");
            // Nor does it apply to a response that is read slowly.
            client.send("GET /large HTTP/1.1\r\nHost: t\r\n\r\n");
            thread::sleep(Duration::from_millis(1500));
            assert_same(&client.response().body, &random_bytes(1, 24 << 20));
        });
    });
}

/// A connection with four requests, each of which restarts the idle timeout, and the time of the last request.
/// `None` if it was idle for nearly the whole timeout.
fn four_in_time(address: SocketAddr) -> Option<(Client, Instant)> {
    let mut client = Client::connect(address);
    let mut before = Instant::now();
    for _ in 0..4 {
        let start = Instant::now();
        let sent = client.stream.write_all(b"GET /file HTTP/1.1\r\nHost: t\r\n\r\n");
        if before.elapsed() > Duration::from_millis(800) {
            return None;
        }
        sent.expect("it is open");
        assert_eq!(client.response().body, b"content");
        before = start;
        thread::sleep(Duration::from_millis(400));
    }
    Some((client, before))
}

fn idle_connections(driver: &'static str) {
    let site = site();
    let server = Server::start_with(driver, &site.root(), &["--idle-timeout", "1s"]);
    thread::scope(|scope| {
        scope.spawn(|| {
            let start = Instant::now();
            Client::connect(server.address).expect_close();
            about_a_second(start);
        });
        scope.spawn(|| {
            // Repeated if the machine stalled for a second, which invalidates the result.
            let (mut client, start) =
                eventually("requests in time", || four_in_time(server.address));
            client.expect_close();
            about_a_second(start);
        });
    });
}
