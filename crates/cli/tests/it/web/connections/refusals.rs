//! Rejected requests: responses and state of the connection, as a table of raw requests. The tests of the crate `http`
//! and the conformance suite cover the syntax of heads.

use phalanx_testkit::http::Client;
use phalanx_testkit::site::Site;

use crate::server::Server;
use crate::{on_each_driver, on_one_driver};

on_each_driver!(rejections_are_readable_despite_further_data);
on_one_driver!(the_table);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterResponse {
    /// The next request is served.
    Stays,
    /// The position of the next request is unknown, so the connection closes.
    Closes,
}
use AfterResponse::{Closes, Stays};

/// A request from its request line and the field lines after `Host`.
fn with_fields(line: &str, fields: &str) -> Vec<u8> {
    format!("{line} HTTP/1.1\r\nHost: test\r\n{fields}\r\n").into_bytes()
}

fn get(path: &str) -> Vec<u8> {
    with_fields(&format!("GET {path}"), "")
}

fn table() -> Vec<(&'static str, Vec<u8>, u16, AfterResponse)> {
    let raw = |text: &str| text.as_bytes().to_vec();
    let fields = |fields: &str| with_fields("GET /a", fields);
    vec![
        ("TLS", raw("\x16\x03\x01\x02\x00\x01\x00"), 400, Closes),
        ("the preface of 2", raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505, Closes),
        ("a long target", get(&format!("/{}", "a".repeat(9000))), 414, Closes),
        ("a large field", fields(&format!("X: {}\r\n", "a".repeat(40_000))), 431, Closes),
        ("many fields", fields(&"X: a\r\n".repeat(200)), 431, Closes),
        ("an unknown coding", fields("Transfer-Encoding: gzip, chunked\r\n"), 501, Closes),
        ("a large body", with_fields("POST /a", "Content-Length: 100000\r\n"), 413, Closes),
        ("a large body that nobody needs", fields("Content-Length: 100000\r\n"), 413, Closes),
        ("an unknown expectation", fields("Expect: tea\r\n"), 417, Closes),
        // Methods
        ("POST", with_fields("POST /a", ""), 405, Stays),
        ("PUT", [&with_fields("PUT /a", "Content-Length: 2\r\n")[..], b"hi"].concat(), 405, Stays),
        ("DELETE", with_fields("DELETE /missing", ""), 405, Stays),
        ("TRACE", with_fields("TRACE /a", ""), 405, Stays),
        ("CONNECT", raw("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"), 405, Closes),
        ("an unknown method", with_fields("BREW /a", ""), 501, Stays),
        ("the lower case", with_fields("get /a", ""), 501, Stays),
        // Paths
        ("nothing there", get("/missing"), 404, Stays),
        ("a long name", get(&format!("/{}", "a".repeat(300))), 404, Stays),
        ("a parent", get("/../a"), 400, Stays),
        ("an encoded parent", get("/x/%2e%2E/a"), 400, Stays),
        ("a zero byte", get("/a%00.html"), 400, Stays),
        ("half an escape", get("/a%2"), 400, Stays),
        ("no escape", get("/%zz"), 400, Stays),
        ("an encoded slash", get("/x%2fa"), 404, Stays),
        ("a backslash", get("/x%5ca"), 400, Stays),
        ("a hidden name", get("/.git/config"), 404, Stays),
        // The rest
        ("a range too far", fields("Range: bytes=9-\r\n"), 416, Stays),
        ("not what the client has", fields("If-Match: \"x\"\r\n"), 412, Stays),
        // Accepted, though unusual
        ("empty lines first", raw("\r\n\r\nGET /a HTTP/1.1\r\nHost: t\r\n\r\n"), 200, Stays),
        ("HTTP/1.2", raw("GET /a HTTP/1.2\r\nHost: t\r\n\r\n"), 200, Stays),
        ("an absolute target", raw("GET http://x/a HTTP/1.1\r\nHost: t\r\n\r\n"), 200, Stays),
        ("escapes", get("/%61"), 200, Stays),
        ("OPTIONS *", with_fields("OPTIONS *", ""), 204, Stays),
        ("OPTIONS", with_fields("OPTIONS /a", ""), 204, Stays),
    ]
}

fn the_table(driver: &'static str) {
    let site = Site::new();
    site.file("a", "letter");
    let server = Server::start(driver, &site.root());
    for (name, request, status, then) in table() {
        let mut client = Client::connect(server.address);
        client.send(&request);
        let response = client.response();
        assert_eq!(response.status, status, "{name}");
        assert_eq!(response.has_connection_close(), then == Closes, "{name}");
        if [405, 204].contains(&status) {
            assert_eq!(response.field("Allow"), Some("GET, HEAD, OPTIONS"), "{name}");
        }
        if status >= 400 {
            assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"), "{name}");
        }
        match then {
            Stays => assert_eq!(client.get("/a").body, b"letter", "{name}"),
            Closes => client.expect_close(),
        }
    }
}

/// A client that is rejected while it is sending can read the response and is not reset.
fn rejections_are_readable_despite_further_data(driver: &'static str) {
    let site = Site::new();
    site.file("a", "letter");
    let server = Server::start(driver, &site.root());
    let body = "x".repeat(100_000);
    for head in [
        "POST /a HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n",
        "GET /a HTTP/1.1\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n\r\n",
    ] {
        let mut client = Client::connect(server.address);
        client.send(format!("{head}{body}"));
        let response = client.response();
        assert!((400..500).contains(&response.status), "{}", response.status);
        assert!(response.has_connection_close());
        client.expect_close();
    }
}
