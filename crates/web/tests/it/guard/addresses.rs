//! Limits per client address.

use std::io::Write;
use std::net::TcpStream;

use phalanx_testkit::eventually;
use socket2::{Domain, Socket, Type};

use crate::guard::harness::{Server, connect, get, on_each_driver, read_to_end, read_until};

/// A connection from another loopback address.
fn from_elsewhere(server: &Server) -> Option<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // Only Linux configures all of 127/8.
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 9], 0)).into()).ok()?;
    socket.connect(&server.address.into()).unwrap();
    socket.set_read_timeout(Some(phalanx_testkit::TIMEOUT)).unwrap();
    Some(socket.into())
}

fn ask(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET /small HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    read_until(stream, "\r\n\r\nsmall")
}

#[test]
fn concurrent_connections_are_limited() {
    on_each_driver(
        |config, _| config.per_address.connections = Some(3),
        |server, _| {
            let mut held: Vec<_> = (0..3).map(|_| connect(server)).collect();
            held.iter_mut().for_each(|stream| drop(ask(stream)));
            let answer = read_to_end(&mut connect(server));
            assert!(answer.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{answer}");
            assert!(answer.contains("Retry-After: 1\r\n"));
            if let Some(mut elsewhere) = from_elsewhere(server) {
                ask(&mut elsewhere);
            }
            // Existing connections are served, and closing one frees its slot.
            held.iter_mut().for_each(|stream| drop(ask(stream)));
            held.pop();
            eventually("a place", || get(server, "/small").ends_with("small").then_some(()));
        },
    );
}

#[test]
fn requests_in_a_burst_and_after_it() {
    on_each_driver(
        |config, _| {
            let limits = &mut config.per_address;
            (limits.requests_per_second, limits.burst) = (Some(0.01), 4);
        },
        |server, _| {
            // The limit is shared by all connections and processors, pipelined or not.
            for _ in 0..3 {
                assert!(get(server, "/small").starts_with("HTTP/1.1 200 "));
            }
            let mut client = connect(server);
            client
                .write_all("GET /small HTTP/1.1\r\nHost: h\r\n\r\n".repeat(3).as_bytes())
                .unwrap();
            let answers = read_until(&mut client, "Content-Length: 0\r\n\r\n");
            assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
            let wait = answers.split("Retry-After: ").nth(1).expect("a time");
            let wait: u64 = wait.split('\r').next().unwrap().parse().unwrap();
            assert!((1..=100).contains(&wait), "{wait}");
            // The connection persists; others are unaffected.
            client.write_all(b"GET /small HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            read_until(&mut client, "Content-Length: 0\r\n\r\n");
            if let Some(mut elsewhere) = from_elsewhere(server) {
                ask(&mut elsewhere);
            }
        },
    );
}
