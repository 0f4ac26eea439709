//! Boundaries between messages (RFC 9112 §9, §6): many and large ones, and errors after the response has begun. The
//! conformance suite tests each rule.

use phalanx_testkit::bytes::{assert_same, random_bytes};
use phalanx_testkit::http::Client;
use phalanx_testkit::site::Site;

use crate::on_each_driver;
use crate::server::Server;

on_each_driver!(
    one_connection_for_many,
    fifty_in_one_write,
    bodies_of_unknown_methods_are_skipped,
    answers_are_not_lost_with_a_bad_body,
    a_bad_body_is_answered,
    expectations,
);

fn site() -> Site {
    let site = Site::new();
    for n in 0..10 {
        site.file(format!("{n}.txt"), format!("file {n}"));
    }
    site.file("middle.bin", random_bytes(1, 30_000));
    site.file("large.bin", random_bytes(2, 400_000));
    site
}

fn one_connection_for_many(driver: &'static str) {
    let site = site();
    let server = Server::start(driver, &site.root());
    let mut client = Client::connect(server.address);
    for n in 0..500 {
        let response = client.get(&format!("/{}.txt", n % 10));
        assert_eq!(response.body, format!("file {}", n % 10).as_bytes());
        assert_eq!(response.field("Connection"), None, "the default of 1.1");
    }
}

fn fifty_in_one_write(driver: &'static str) {
    let site = site();
    let server = Server::start(driver, &site.root());
    // Small files only, then with large ones in between, which do not fit into one write.
    for large in [false, true] {
        let mut client = Client::connect(server.address);
        let path = |n: usize| match n % 5 {
            1 if large => "/middle.bin".to_owned(),
            3 if large => "/large.bin".to_owned(),
            4 => "/missing".to_owned(),
            _ => format!("/{}.txt", n % 10),
        };
        let request = |n| format!("GET {} HTTP/1.1\r\nHost: test\r\n\r\n", path(n));
        let requests: String = (0..50).map(request).collect();
        client.send(requests);
        for n in 0..50 {
            let response = client.response();
            match path(n).as_str() {
                "/missing" => assert_eq!(response.status, 404),
                "/middle.bin" => assert_same(&response.body, &random_bytes(1, 30_000)),
                "/large.bin" => assert_same(&response.body, &random_bytes(2, 400_000)),
                _ => assert_eq!(response.body, format!("file {}", n % 10).as_bytes()),
            }
        }
        assert_eq!(client.buffered(), 0, "each is answered once");
        assert_eq!(client.get("/0.txt").status, 200);
    }
}

fn bodies_of_unknown_methods_are_skipped(driver: &'static str) {
    let site = site();
    let server = Server::start(driver, &site.root());
    let mut client = Client::connect(server.address);
    let large = "x".repeat(60_000);
    let disguise = "GET /9.txt HTTP/1.1\r\nHost: t\r\n\r\n";
    let bodies = [
        "Content-Length: 5\r\n\r\nhello".to_owned(),
        // A body that looks like a request is not one.
        format!("Content-Length: {}\r\n\r\n{disguise}", disguise.len()),
        "Content-Length: 0\r\n\r\n".to_owned(),
        format!("Content-Length: 60000\r\n\r\n{large}"),
        "Transfer-Encoding: chunked\r\n\r\n5;ext=1\r\nhello\r\n0\r\nTrailer: x\r\n\r\n".to_owned(),
        format!("Transfer-Encoding: chunked\r\n\r\nEA60\r\n{large}\r\n0\r\n\r\n"),
    ];
    for body in &bodies {
        let next = "GET /2.txt HTTP/1.1\r\nHost: t\r\n\r\n";
        client.send(format!("BREW /1.txt HTTP/1.1\r\nHost: t\r\n{body}{next}"));
        assert_eq!(client.response().status, 501);
        assert_eq!(client.response().body, b"file 2", "the request after the body");
    }
}

/// An error in a body ends the connection after earlier requests are answered.
fn answers_are_not_lost_with_a_bad_body(driver: &'static str) {
    let site = site();
    let server = Server::start(driver, &site.root());
    let mut client = Client::connect(server.address);
    client.send(
        "GET /1.txt HTTP/1.1\r\nHost: t\r\n\r\n\
         GET /2.txt HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
    );
    assert_eq!(client.response().body, b"file 1");
    assert_eq!(client.response().body, b"file 2", "its head was valid");
    let last = client.response();
    assert_eq!(last.status, 400);
    assert!(last.has_connection_close());
    client.expect_close();
}

/// The client receives the 400 wherever the error is, and whether it arrives with the head or later.
fn a_bad_body_is_answered(driver: &'static str) {
    let site = site();
    let server = Server::start(driver, &site.root());
    let extension = format!("5;{}\r\nhello\r\n", "a".repeat(9000));
    let trailers = format!("0\r\n{}\r\n", "a: b\r\n".repeat(10_000));
    let bodies = [
        ("nonsense\r\n", 400),
        ("5;\r\nhello\r\n", 400),
        ("5;bad[=x\r\nhello\r\n", 400),
        ("5\r\nhello\r\n5;a=\"b\r\nhello\r\n", 400),
        ("5\r\nhello, world\r\n", 400),
        ("5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n", 400),
        ("fffffff\r\n", 413),
        (&extension, 413),
        (&trailers, 431),
    ];
    let behind = "GET /2.txt HTTP/1.1\r\nHost: t\r\n\r\n";
    for (body, status) in bodies {
        for together in [true, false] {
            for (method, first) in [("POST", 405), ("GET", 200), ("BREW", 501)] {
                let head = format!(
                    "{method} /1.txt HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
                );
                let mut client = Client::connect(server.address);
                if together {
                    client.send(format!("{head}{body}{behind}"));
                    assert_eq!(client.response().status, first);
                } else {
                    client.send(head);
                    assert_eq!(client.response().status, first);
                    client.send(format!("{body}{behind}"));
                }
                let last = client.response();
                assert_eq!(last.status, status, "{method} {body:.40}");
                assert!(last.has_connection_close());
                client.expect_close();
            }
        }
    }
}

fn expectations(driver: &'static str) {
    let site = site();
    let server = Server::start(driver, &site.root());
    // The response is known without the body: it is sent immediately, without a 100 (RFC 9110 §10.1.1).
    let mut client = Client::connect(server.address);
    client.send(
        "POST /1.txt HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    );
    let response = client.response();
    assert_eq!(response.status, 405);
    assert!(response.has_connection_close(), "it is unknown whether a body follows");
    client.expect_close();
    // Without a body, Expect has no effect.
    let mut client = Client::connect(server.address);
    assert_eq!(client.get_with("/1.txt", "Expect: 100-continue\r\n").body, b"file 1");
    assert_eq!(client.get("/2.txt").body, b"file 2");
    let other = client.get_with("/1.txt", "Expect: tea\r\n");
    assert_eq!(other.status, 417);
}
