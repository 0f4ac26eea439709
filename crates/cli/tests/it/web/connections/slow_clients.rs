//! Many clients, and misbehaving ones, which must not affect others.

use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use phalanx_testkit::bytes::{assert_same, random_bytes};
use phalanx_testkit::eventually;
use phalanx_testkit::http::{Client, get};
use phalanx_testkit::site::Site;
use socket2::{Domain, Socket, Type};

use crate::on_each_driver;
use crate::server::Server;

on_each_driver!(
    a_cache_too_small,
    three_hundred_connections,
    clients_that_never_read,
    clients_that_disconnect,
    more_connections_than_allowed,
    workers_share_the_limit_of_connections,
);

/// Requests `path` and does not read. The receive buffer is small, so that most of a large response stays in the
/// server.
pub(crate) fn slow_client(address: SocketAddr, path: &str) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    socket.connect(&address.into()).unwrap();
    let mut client = Client::from_stream(TcpStream::from(socket));
    client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
    // The first bytes show that the response has begun.
    client.read_more().unwrap();
    client
}

/// 20 MiB of files of all sizes through a cache of 1 MiB, with several concurrent clients.
fn a_cache_too_small(driver: &'static str) {
    let site = Site::new();
    let lengths: Vec<usize> =
        (0..60).map(|n| [3_000, 64 * 1024, 130_000, 1_200_000][n % 4]).collect();
    assert!(lengths.iter().sum::<usize>() > 20 << 20);
    for (n, length) in lengths.iter().enumerate() {
        site.file(format!("{n}"), random_bytes(n as u64, *length));
    }
    let contents: Vec<_> =
        lengths.iter().enumerate().map(|(n, l)| random_bytes(n as u64, *l)).collect();
    let server = Server::start_with(driver, &site.root(), &["--cache", "1M"]);
    thread::scope(|scope| {
        for offset in 0..4 {
            let (address, contents) = (server.address, &contents);
            scope.spawn(move || {
                let mut client = Client::connect(address);
                for n in 0..2 * contents.len() {
                    // Two clients follow each other closely, two are elsewhere.
                    let n = (n + offset / 2 * 31) % contents.len();
                    assert_same(&client.get(&format!("/{n}")).body, &contents[n]);
                }
            });
        }
    });
}

fn three_hundred_connections(driver: &'static str) {
    let site = Site::new();
    let content = random_bytes(1, 50_000);
    site.file("file", &content);
    let server = Server::start(driver, &site.root());
    let all_connected = Barrier::new(6);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut clients: Vec<_> =
                    (0..50).map(|_| Client::connect(server.address)).collect();
                all_connected.wait();
                for _ in 0..3 {
                    for client in &mut clients {
                        client.send("GET /file HTTP/1.1\r\nHost: test\r\n\r\n");
                    }
                    for client in &mut clients {
                        assert_same(&client.response().body, &content);
                    }
                }
            });
        }
    });
}

fn clients_that_never_read(driver: &'static str) {
    let site = Site::new();
    site.file("large", random_bytes(1, 24 << 20));
    site.file("small", "small");
    let server = Server::start(driver, &site.root());
    let mut slow: Vec<_> = (0..20).map(|_| slow_client(server.address, "/large")).collect();
    // A client that sends requests continuously and never reads.
    let mut flood = TcpStream::connect(server.address).unwrap();
    flood.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let requests = "GET /small HTTP/1.1\r\nHost: test\r\n\r\n".repeat(1000);
    let mut sent = 0;
    while std::io::Write::write(&mut flood, requests.as_bytes()).is_ok_and(|count| count > 0) {
        sent += 1;
        assert!(sent < 100_000, "the server reads requests although their answers are not read");
    }
    for _ in 0..100 {
        assert_eq!(get(server.address, "/small").body, b"small");
    }
    // A slow client gets its whole response.
    assert_same(&slow.pop().unwrap().response().body, &random_bytes(1, 24 << 20));
}

fn clients_that_disconnect(driver: &'static str) {
    let site = Site::new();
    site.file("large", random_bytes(1, 24 << 20));
    site.file("small", "small");
    let server = Server::start(driver, &site.root());
    for n in 0..40 {
        let client = slow_client(server.address, "/large");
        if n % 2 == 0 {
            // Unread bytes in a closed socket make the kernel send a reset.
            drop(client);
        } else {
            socket2::SockRef::from(&client.stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
        assert_eq!(get(server.address, "/small").body, b"small");
    }
    // A client that is killed.
    let url = format!("http://{}/large", server.address);
    let mut curl = std::process::Command::new("curl")
        .args(["--disable", "--noproxy", "*", "--silent", "--limit-rate", "100k", &url])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("these tests need curl");
    thread::sleep(Duration::from_millis(100));
    curl.kill().unwrap();
    curl.wait().unwrap();
    assert_eq!(get(server.address, "/small").body, b"small");
}

/// Few connections share a worker, which may use the limit of all.
fn workers_share_the_limit_of_connections(driver: &'static str) {
    let site = Site::new();
    site.file("small", "small");
    let mut command = crate::server::bare();
    command.arg("web").arg(site.root()).args(["--listen", "127.0.0.1:0", "--driver", driver]);
    command.args(["--max-connections", "4", "--workers", "2"]);
    let server = Server::launch(command);
    let mut clients: Vec<_> = (0..4).map(|_| Client::connect(server.address)).collect();
    for client in &mut clients {
        assert_eq!(client.get("/small").status, 200);
    }
    let mut fifth = Client::connect(server.address);
    assert_eq!(fifth.response().status, 503);
}

fn more_connections_than_allowed(driver: &'static str) {
    let site = Site::new();
    site.file("small", "small");
    let limit = ["--max-connections", "8", "--workers", "1"];
    let mut command = crate::server::bare();
    command.arg("web").arg(site.root()).args(["--listen", "127.0.0.1:0", "--driver", driver]);
    command.args(limit);
    let server = Server::launch(command);
    let mut clients: Vec<_> = (0..8).map(|_| Client::connect(server.address)).collect();
    for client in &mut clients {
        assert_eq!(client.get("/small").status, 200);
    }
    // A client that has already sent a request can read the rejection.
    for request in ["", "GET /small HTTP/1.1\r\nHost: test\r\n\r\n"] {
        let mut ninth = Client::connect(server.address);
        ninth.send(request);
        let response = ninth.response();
        assert_eq!((response.status, response.has_connection_close()), (503, true), "the ninth");
        assert_eq!(response.field("Retry-After"), Some("1"));
        ninth.expect_close();
    }
    assert_eq!(clients[0].get("/small").status, 200, "the first remains open");
    drop(clients.pop());
    // The server notices the close with a delay.
    eventually("a free connection slot", || {
        let mut client = Client::connect(server.address);
        std::io::Write::write_all(&mut client.stream, b"GET /small HTTP/1.0\r\n\r\n").ok()?;
        client.read_more().ok().filter(|count| *count > 0)?;
        (client.response().status == 200).then_some(())
    });
}
