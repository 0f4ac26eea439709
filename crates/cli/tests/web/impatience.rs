//! The server waits for nobody for ever.

use std::io::Write;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::on_each_driver;
use crate::server::{Server, eventually};
use crate::site::{Site, noise, same};

on_each_driver!(unfinished_requests, idle_connections);

/// Limits are looked at every tenth of a second; and a loaded machine may stand still for longer.
const SLACK: Duration = Duration::from_secs(10);

fn site() -> Site {
    let site = Site::new();
    site.file("file", "content");
    site.file("large", noise(1, 24 << 20));
    site
}

/// That it took about a second.
#[track_caller]
fn about_a_second(begun: Instant) {
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(900), "after {took:?} already");
    assert!(took < Duration::from_secs(1) + SLACK, "after {took:?} only");
}

fn unfinished_requests(driver: &'static str) {
    let site = site();
    let server = Server::start_with(driver, &site.root(), &["--request-timeout", "1"]);
    let timed_out = |mut client: Client, begun| {
        let response = client.response();
        assert_eq!(response.status, 408);
        assert!(response.says_close());
        about_a_second(begun);
        client.closes();
    };
    thread::scope(|scope| {
        let connect = || (Client::connect(server.address), Instant::now());
        scope.spawn(move || {
            let (mut client, begun) = connect();
            client.send("GET /file HT");
            timed_out(client, begun);
        });
        scope.spawn(move || {
            // One limit for the whole of it, however it trickles in (slow loris).
            let (mut client, begun) = connect();
            client.stream.set_nonblocking(false).unwrap();
            for byte in b"GET /file HTTP/1.1\r\nX: y" {
                let sent = client.stream.write(&[*byte]);
                thread::sleep(Duration::from_millis(100));
                if sent.is_err() {
                    break;
                }
            }
            timed_out(client, begun);
        });
        scope.spawn(move || {
            // Behind a whole request: that is answered, and the limit is the second's own.
            let (mut client, _) = connect();
            assert_eq!(client.get("/file").status, 200);
            thread::sleep(Duration::from_millis(500));
            let begun = Instant::now();
            client.send("GET /file HTTP/1.1\r\nHost: t\r\n\r\nGET /f");
            assert_eq!(client.response().body, b"content");
            timed_out(client, begun);
        });
        scope.spawn(move || {
            // A body that never comes; its request was answered already.
            let (mut client, begun) = connect();
            client.send("POST /file HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nabc");
            assert_eq!(client.response().status, 405);
            client.closes();
            about_a_second(begun);
        });
        scope.spawn(move || {
            // Not a word: that is no request yet, so the limit is not its.
            let (mut client, _) = connect();
            thread::sleep(Duration::from_millis(1500));
            assert_eq!(client.get("/file").body, b"content");
            // Nor is it the answer's, however slowly that is read.
            client.send("GET /large HTTP/1.1\r\nHost: t\r\n\r\n");
            thread::sleep(Duration::from_millis(1500));
            same(&client.response().body, &noise(1, 24 << 20));
        });
    });
}

/// A connection that is asked four times, and each time gives it another second; and when the last was asked. None if it
/// was idle for nearly as long.
fn four_in_time(address: SocketAddr) -> Option<(Client, Instant)> {
    let mut client = Client::connect(address);
    let mut before = Instant::now();
    for _ in 0..4 {
        let begun = Instant::now();
        let sent = client.stream.write_all(b"GET /file HTTP/1.1\r\nHost: t\r\n\r\n");
        if before.elapsed() > Duration::from_millis(800) {
            return None;
        }
        sent.expect("it is open");
        assert_eq!(client.response().body, b"content");
        before = begun;
        thread::sleep(Duration::from_millis(400));
    }
    Some((client, before))
}

fn idle_connections(driver: &'static str) {
    let site = site();
    let server = Server::start_with(driver, &site.root(), &["--idle-timeout", "1"]);
    thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            Client::connect(server.address).closes();
            about_a_second(begun);
        });
        scope.spawn(|| {
            // Again where the machine stood still for a second: then nothing can be said.
            let (mut client, begun) =
                eventually("requests in time", || four_in_time(server.address));
            client.closes();
            about_a_second(begun);
        });
    });
}
