//! Clients with HTTP/2 that are slow, or leave.

use std::io::Write;
use std::net::{Ipv4Addr, Shutdown};
use std::thread;
use std::time::{Duration, Instant};

use phalanx_testkit::http::Client;
use phalanx_testkit::http2::{Connection, Frame, kind};
use phalanx_testkit::{TIMEOUT, eventually, tcp};
use phalanx_web::Config;

use crate::common::{metric, on_each_driver, small_and_large};

/// Name of the setting of the first windows (RFC 9113 §6.5.2).
const INITIAL_WINDOW_SIZE: u16 = 4;
const CANCEL: Option<u32> = Some(8);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn site(home: &std::path::Path, change: impl Fn(&mut Config)) -> Config {
    let mut config = small_and_large(home);
    config.h2c = true;
    config.max_queue_delay = None;
    change(&mut config);
    config
}

/// Opens the window of a stream by one byte at a time, until the server resets it.
fn until_reset(client: &mut Connection, pause: Duration) {
    let started = Instant::now();
    client.read_until(|client| client.status(1) == Some(200));
    for taken in 1.. {
        thread::sleep(pause);
        client.send(kind::WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes());
        client.read_until(|client| client.content(1).len() == taken || client.is_over(1));
        assert!(started.elapsed() < TIMEOUT, "each byte has a limit of its own");
        if client.is_over(1) {
            break;
        }
    }
    assert_eq!(client.reset(1), CANCEL);
}

/// The bytes of a response have one time limit together.
#[test]
fn a_window_of_single_bytes() {
    let limit = Duration::from_secs(1);
    for of_rate in [false, true] {
        let start = |home: &std::path::Path| {
            site(home, |config| {
                config.timeouts.send = if of_rate { TIMEOUT } else { limit };
                config.timeouts.min_send_rate = of_rate.then_some(1 << 20);
            })
        };
        on_each_driver(start, |server, _| {
            let mut client = Connection::open(server.address, &[(INITIAL_WINDOW_SIZE, 0)]);
            client.get(1, "/large");
            until_reset(&mut client, Duration::from_millis(200));
        });
    }
}

/// A piece of a response may take longer than the limit, if its parts do not.
#[test]
fn a_window_of_large_parts() {
    let limit = Duration::from_secs(2);
    on_each_driver(
        |home| site(home, |config| config.timeouts.send = limit),
        |server, _| {
            let part = 8 * 1024;
            let outlasts_the_limit = || {
                let mut client = Connection::open(server.address, &[(INITIAL_WINDOW_SIZE, part)]);
                client.send(kind::WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
                client.get(1, "/large");
                let started = Instant::now();
                for parts in 1.. {
                    let taken = parts * part as usize;
                    client
                        .read_until(|client| client.content(1).len() == taken || client.is_over(1));
                    if client.is_over(1) || started.elapsed() > 2 * limit {
                        break;
                    }
                    thread::sleep(limit / 6);
                    client.send(kind::WINDOW_UPDATE, 0, 1, &part.to_be_bytes());
                }
                assert!(client.content(1).len() < 128 * 1024, "within the first block");
                (!client.is_over(1)).then_some(())
            };
            // The attempt is repeated if this thread was not scheduled for as long as the limit.
            eventually("a response that outlasts the limit", outlasts_the_limit);
        },
    );
}

/// A client that waits for 100 gets its response without having sent anything.
#[test]
fn a_client_that_holds_its_content_back() {
    on_each_driver(
        |home| site(home, |config| config.timeouts.body = 2 * TIMEOUT),
        |server, _| {
            let mut client = Connection::open(server.address, &[]);
            let head = |method, path| {
                let [scheme, authority] = [(":scheme", "http"), (":authority", "a")];
                let expects = ("expect", "100-continue");
                [(":method", method), scheme, (":path", path), authority, expects]
            };
            client.headers(1, false, &head("POST", "/small"));
            assert_eq!(client.answer(1).0, 405);
            client.headers(3, false, &head("GET", "/small"));
            assert_eq!(client.answer(3), (200, b"small".to_vec()));
            client.get(5, "/small");
            assert_eq!(client.answer(5).0, 200, "the connection stays open");
        },
    );
}

/// Requests that are refused by their heads or by the length of their content count as well.
#[test]
fn refused_requests_have_a_rate() {
    let limited = |home: &std::path::Path| {
        site(home, |config| {
            config.limits.body = 10;
            let limits = &mut config.per_address;
            (limits.requests_per_second, limits.burst) = (Some(0.001), 2);
        })
    };
    on_each_driver(limited, |server, _| {
        let mut client = Connection::open(server.address, &[]);
        let wrong = [":method", ":scheme", ":path", ":authority"].into_iter();
        let wrong: Vec<_> = wrong.zip(["GET", "http", "/", "user@a"]).collect();
        client.headers(1, true, &wrong);
        assert_eq!(client.answer(1).0, 400);
        client.post(3, "/small");
        client.data(3, true, &[0; 11]);
        assert_eq!(client.answer(3).0, 413);
        client.headers(5, true, &wrong);
        assert_eq!(client.answer(5).0, 400);
        client.headers(7, true, &wrong);
        client.post(9, "/small");
        client.data(9, true, &[0; 11]);
        assert_eq!([7, 9].map(|stream| client.answer(stream).0), [429; 2]);
    });
}

/// The first bytes of the preface look like a request.
#[test]
fn a_preface_in_two_pieces() {
    on_each_driver(
        |home| site(home, |_| ()),
        |server, _| {
            for length in [3, 16, 18, 20] {
                let mut client = tcp::connect(server.address);
                client.set_nodelay(true).unwrap();
                client.write_all(&PREFACE[..length]).unwrap();
                thread::sleep(Duration::from_millis(100));
                client.write_all(&PREFACE[length..]).unwrap();
                let mut start = [0; 9];
                std::io::Read::read_exact(&mut client, &mut start).unwrap();
                assert_eq!((start[3], start[4]), (kind::SETTINGS, 0), "{length}");
            }
        },
    );
}

/// A flood counts even if its client does not wait for the end of its connection.
#[test]
fn a_flood_of_a_client_that_leaves() {
    let with_admin = |home: &std::path::Path| {
        site(home, |config| config.runtime.admin = Some((Ipv4Addr::LOCALHOST, 0).into()))
    };
    on_each_driver(with_admin, |server, _| {
        let frame = |kind, payload| Frame { kind, flags: 0, stream: 0, payload }.bytes();
        let (settings, ping) = (frame(kind::SETTINGS, vec![]), frame(kind::PING, vec![0; 8]));
        let mut client = tcp::connect(server.address);
        client.write_all(&[PREFACE, &settings, &ping.repeat(1100)].concat()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let name = "phalanx_web_http2_floods_total{reason=\"control-frames\"}";
        eventually(name, || metric(server, name).filter(|count| *count == 1));
    });
}

/// The preface is valid only at the start of a connection (RFC 9113 §3.4), however the bytes are split.
#[test]
fn no_preface_after_a_request() {
    on_each_driver(
        |home| site(home, |_| ()),
        |server, _| {
            for body in ["", "hello"] {
                let mut client = Client::connect(server.address);
                client.send(format!(
                    "GET /small HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                ));
                assert_eq!(client.response().status, 200);
                client.send(body);
                client.send(PREFACE);
                assert_eq!(client.response().status, 505);
                client.expect_close();
            }
        },
    );
}
