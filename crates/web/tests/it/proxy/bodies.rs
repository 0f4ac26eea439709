//! Bodies of requests.

use std::io::Write;
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

use phalanx_testkit::http::Client;

use crate::common::{all, connect, read_to_end, read_until};
use crate::proxy::backend::{Backend, Peer};
use crate::proxy::with;

/// Length of a body that no buffer holds.
pub(super) const LARGE: usize = 8 << 20;

/// Reads a body in chunks.
fn chunks(peer: &mut Peer) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = peer.read_until("\r\n").unwrap();
        let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
        body.extend(peer.body(size));
        assert_eq!(peer.body(2), b"\r\n");
        if size == 0 {
            return body;
        }
    }
}

/// A server that responds with the body of the request.
pub(crate) fn echo() -> Backend {
    Backend::new(|mut peer, _| {
        while let Some(head) = peer.head() {
            assert!(!head.to_lowercase().contains("expect:"), "{head}");
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let body = match length {
                Some(length) => peer.body(length.parse().unwrap()),
                None => {
                    assert!(head.contains("Transfer-Encoding: chunked\r\n"), "{head}");
                    chunks(&mut peer)
                }
            };
            peer.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()));
            peer.say(body);
        }
    })
}

#[test]
fn bodies_pass_in_both_directions() {
    with(
        echo,
        |_| (),
        |server, backend| {
            let bodies = [0, 1, 5000, LARGE]
                .map(|length| (0..length).map(|n| (n ^ n >> 8) as u8).collect::<Vec<u8>>());
            let mut client = Client::connect(server.address);
            for body in bodies {
                let length = body.len();
                client.send(format!(
                    "PUT /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
                ));
                client.send(&body);
                let response = client.response();
                assert!(response.status == 200 && response.body == body, "{length}");
            }
            client.send("PUT /api HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3;a\r\nabc\r\n");
            client.send("4\r\ndefg\r\n0\r\nX-Trailer: 1\r\n\r\n");
            assert_eq!(client.response().text(), "abcdefg");
            // A connection that was unused for a second is not reused for a request with a body.
            assert!(backend.accepted() < 5, "{}", backend.accepted());
        },
    );
}

#[test]
fn a_client_may_wait_for_100() {
    with(
        echo,
        |_| (),
        |server, _| {
            let mut client = connect(server);
            let head = "POST /api HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close\r\n\
                    Content-Length: 2\r\n\r\n";
            client.write_all(head.as_bytes()).unwrap();
            assert_eq!(read_until(&mut client, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
            client.write_all(b"hi").unwrap();
            let text = read_to_end(&mut client);
            assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with("\r\n\r\nhi"), "{text}");
        },
    );
}

#[test]
fn a_server_may_answer_before_the_end_of_the_body() {
    let backend = || {
        Backend::new(|mut peer, _| {
            if peer.head().is_some() {
                peer.say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
            }
        })
    };
    with(
        backend,
        |_| (),
        |server, _| {
            let mut client = connect(server);
            let head = format!("POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: {LARGE}\r\n\r\n");
            client.write_all(head.as_bytes()).unwrap();
            let text = read_until(&mut client, "no");
            assert!(
                text.starts_with("HTTP/1.1 413 ") && text.contains("Connection: close"),
                "{text}"
            );
        },
    );
}

/// Client and server start to send before they have read everything.
#[test]
fn both_directions_run_at_the_same_time() {
    let backend = || {
        Backend::new(|mut peer, _| {
            let Some(_) = peer.head() else { return };
            peer.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            for _ in 0..LARGE / 4096 {
                let piece = peer.body(4096);
                peer.say(b"1000\r\n");
                peer.say(piece);
                peer.say(b"\r\n");
            }
            peer.say(b"0\r\n\r\n");
        })
    };
    with(
        backend,
        |_| (),
        |server, _| {
            let mut client = Client::connect(server.address);
            let head = format!("POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: {LARGE}\r\n\r\n");
            client.try_send(head.as_bytes());
            let mut sender = connect_again(&client);
            let sending = thread::spawn(move || sender.write_all(&vec![7; LARGE]).unwrap());
            let response = client.try_response(false).unwrap();
            assert!(response.body == vec![7; LARGE]);
            sending.join().unwrap();
        },
    );
}

fn connect_again(client: &Client) -> std::net::TcpStream {
    client.stream.try_clone().unwrap()
}

#[test]
fn wrong_bodies_are_refused() {
    let backend = || Backend::new(|mut peer, _| peer.drain());
    with(
        backend,
        |proxy| proxy.max_body = 10,
        |server, _| {
            for (body, status) in [
                ("Content-Length: 11\r\n\r\n", 413),
                ("Transfer-Encoding: chunked\r\n\r\nb\r\n", 413),
                ("Transfer-Encoding: chunked\r\n\r\nx\r\n", 400),
                ("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc", 400),
            ] {
                let text = all(server, &format!("POST /api HTTP/1.1\r\nHost: a\r\n{body}"));
                assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{body:?}: {text}");
                assert!(text.contains("Connection: close\r\n"), "{body:?}: {text}");
            }
        },
    );
}

/// A client must not hold a server's slot by sending a byte from time to time.
#[test]
fn a_body_that_trickles_is_408() {
    let backend = || Backend::new(|mut peer, _| peer.drain());
    with(
        backend,
        |proxy| proxy.idle_timeout = Duration::from_millis(500),
        |server, _| {
            let mut client = connect(server);
            let head = "POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
            client.write_all(head.as_bytes()).unwrap();
            let mut sender = client.try_clone().unwrap();
            // Ends when the server has closed the connection.
            let sending = thread::spawn(move || {
                while sender.write_all(b"x").is_ok() {
                    thread::sleep(Duration::from_millis(20));
                }
            });
            let text = read_to_end(&mut client);
            assert!(
                text.starts_with("HTTP/1.1 408 ") && text.contains("Connection: close"),
                "{text}"
            );
            // The server may have reset the connection.
            let _ = client.shutdown(Shutdown::Both);
            sending.join().unwrap();
        },
    );
}
