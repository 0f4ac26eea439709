//! Conditional requests (RFC 9110 §13).

use std::time::{Duration, Instant};

use phalanx_testkit::bytes::random_bytes;
use phalanx_testkit::eventually;
use phalanx_testkit::http::{Client, Response};
use phalanx_testkit::site::{Site, age};

use crate::on_each_driver;
use crate::server::Server;

on_each_driver!(large_files, fresh);

/// A file that is served in blocks. The conformance suite tests all conditions with a small one.
fn large_files(driver: &'static str) {
    let site = Site::new();
    site.file("large.bin", random_bytes(1, 200_000));
    let server = Server::start(driver, &site.root());
    let mut client = Client::connect(server.address);
    let full = client.get("/large.bin");
    let tag = full.field("ETag").expect("a tag").to_owned();
    let date = full.field("Last-Modified").expect("a date").to_owned();
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 4, "strong: {tag}");
    // (lines, status)
    let table = [
        (format!("If-None-Match: \"x\", W/{tag}\r\n"), 304),
        (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {date}\r\n"), 200),
        (format!("If-Modified-Since: {date}\r\n"), 304),
        ("If-Match: \"x\"\r\n".into(), 412),
        (format!("If-Unmodified-Since: {date}\r\n"), 200),
        (format!("Range: bytes=2-4\r\nIf-Range: {tag}\r\n"), 206),
        (format!("Range: bytes=2-4\r\nIf-Range: {date}\r\n"), 206),
        (format!("Range: bytes=2-4\r\nIf-Range: W/{tag}\r\n"), 200),
        ("Range: bytes=2-4\r\nIf-Range: \"x\"\r\n".into(), 200),
    ];
    for (lines, status) in table {
        let response = client.get_with("/large.bin", &lines);
        assert_eq!(response.status, status, "{lines}");
        assert!(!response.has_connection_close());
        match status {
            200 => assert!(response.body == full.body, "{lines}"),
            206 => assert_eq!(response.body, full.body[2..5]),
            304 => check_unchanged(&response, &full),
            _ => (),
        }
    }
}

/// A 304 has the fields of a 200, except for those about the content (§15.4.5).
fn check_unchanged(response: &Response, full: &Response) {
    for name in ["ETag", "Last-Modified"] {
        assert_eq!(response.field(name), full.field(name));
    }
    for name in ["Content-Length", "Content-Type", "Content-Range"] {
        assert_eq!(response.field(name), None, "{name} on a 304");
    }
}

/// A file modified in the current second may change again without a change of its time, so its tag is weak and
/// not usable for ranges (RFC 9110 §8.8.1). Later the same file has a strong one.
fn fresh(driver: &'static str) {
    let site = Site::new();
    site.file("small.txt", "0123456789");
    let server = Server::start(driver, &site.root());
    let mut client = Client::connect(server.address);
    let written = Instant::now();
    age(&site.root().join("small.txt"), 0);
    let tag = client.get("/small.txt").field("ETag").unwrap().to_owned();
    let Some(strong) = tag.strip_prefix("W/") else {
        // Unless the machine stalled, so that the file is older.
        assert!(written.elapsed() > Duration::from_millis(900), "{tag}");
        return;
    };
    let lines = format!("Range: bytes=0-1\r\nIf-Range: {tag}\r\n");
    assert_eq!(client.get_with("/small.txt", &lines).status, 200);
    let reread = format!("If-None-Match: {tag}\r\n");
    assert_eq!(client.get_with("/small.txt", &reread).status, 304, "weak comparison suffices");
    eventually("a strong tag", || {
        let response = client.get("/small.txt");
        (response.field("ETag") == Some(strong)).then_some(())
    });
}
