//! Conditional requests (RFC 9110 §13).

use std::time::{Duration, Instant};

use phalanx_testkit::bytes::noise;
use phalanx_testkit::eventually;
use phalanx_testkit::http::{Client, Response};
use phalanx_testkit::site::{Site, age};

use crate::on_each_driver;
use crate::server::Server;

on_each_driver!(unmodified_files_are_not_sent, ranges_of_changed_files_are_not_sent, fresh);

/// A small file and one that is served in blocks: the same rules apply to both.
fn site() -> Site {
    let site = Site::new();
    site.file("small.txt", "0123456789");
    site.file("large.bin", noise(1, 200_000));
    site
}

const PATHS: [&str; 2] = ["/small.txt", "/large.bin"];

const PAST: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const FUTURE: &str = "Sat, 06 Nov 2094 08:49:37 GMT";

fn unmodified_files_are_not_sent(driver: &'static str) {
    let site = site();
    let server = Server::start(driver, &site.root());
    let mut client = Client::connect(server.address);
    for path in PATHS {
        let whole = client.get(path);
        let tag = whole.field("ETag").expect("a tag").to_owned();
        let date = whole.field("Last-Modified").expect("a date").to_owned();
        assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 4, "strong: {tag}");
        // (lines, status)
        let table = [
            (format!("If-None-Match: {tag}\r\n"), 304),
            (format!("If-None-Match: W/{tag}\r\n"), 304),
            (format!("If-None-Match: \"x\", {tag}\r\n"), 304),
            (format!("If-None-Match: \"x\"\r\nIf-None-Match: {tag}\r\n"), 304),
            ("If-None-Match: *\r\n".into(), 304),
            ("If-None-Match: \"x\"\r\n".into(), 200),
            (format!("If-Modified-Since: {date}\r\n"), 304),
            (format!("If-Modified-Since: {FUTURE}\r\n"), 304),
            (format!("If-Modified-Since: {PAST}\r\n"), 200),
            ("If-Modified-Since: yesterday\r\n".into(), 200),
            // The tag takes precedence (§13.2.2).
            (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {date}\r\n"), 200),
            (format!("If-None-Match: {tag}\r\nIf-Modified-Since: {PAST}\r\n"), 304),
            (format!("If-Match: {tag}\r\n"), 200),
            ("If-Match: *\r\n".into(), 200),
            ("If-Match: \"x\"\r\n".into(), 412),
            (format!("If-Match: W/{tag}\r\n"), 412),
            (format!("If-Unmodified-Since: {date}\r\n"), 200),
            (format!("If-Unmodified-Since: {PAST}\r\n"), 412),
        ];
        for (lines, status) in table {
            let response = client.get_with(path, &lines);
            assert_eq!(response.status, status, "{path}: {lines}");
            assert!(!response.says_close());
            match status {
                200 => assert_eq!(response.body, whole.body),
                304 => check_unchanged(&response, &whole),
                _ => (),
            }
        }
        // Conditions do not apply to missing files.
        let missing = client.get_with("/missing", "If-None-Match: *\r\n");
        assert_eq!(missing.status, 404, "conditions are for what would be 200 (§13.2.1)");
    }
}

/// A 304 has the fields of a 200, except for those about the content (§15.4.5).
fn check_unchanged(response: &Response, whole: &Response) {
    for name in ["ETag", "Last-Modified"] {
        assert_eq!(response.field(name), whole.field(name));
    }
    for name in ["Content-Length", "Content-Type", "Content-Range"] {
        assert_eq!(response.field(name), None, "{name} on a 304");
    }
}

fn ranges_of_changed_files_are_not_sent(driver: &'static str) {
    let site = site();
    let server = Server::start(driver, &site.root());
    let mut client = Client::connect(server.address);
    for path in PATHS {
        let whole = client.get(path);
        let tag = whole.field("ETag").unwrap().to_owned();
        let date = whole.field("Last-Modified").unwrap().to_owned();
        // (If-Range, status)
        let table = [
            (tag.clone(), 206),
            (date, 206),
            (format!("W/{tag}"), 200),
            ("\"x\"".into(), 200),
            (PAST.into(), 200),
            // An exact match rather than a comparison (§13.1.5).
            (FUTURE.into(), 200),
            ("nonsense".into(), 200),
        ];
        for (condition, status) in table {
            let lines = format!("Range: bytes=2-4\r\nIf-Range: {condition}\r\n");
            let response = client.get_with(path, &lines);
            assert_eq!(response.status, status, "{path}: {condition}");
            let wanted = if status == 206 { &whole.body[2..5] } else { &whole.body[..] };
            assert!(response.body == wanted, "{path}: {condition}");
        }
        // Ignored without Range.
        assert_eq!(client.get_with(path, &format!("If-Range: {tag}\r\n")).status, 200);
    }
}

/// A file modified in the current second may change again without a change of its time, so its tag is weak and
/// not usable for ranges (RFC 9110 §8.8.1). Later the same file has a strong one.
fn fresh(driver: &'static str) {
    let site = site();
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
    let again = format!("If-None-Match: {tag}\r\n");
    assert_eq!(client.get_with("/small.txt", &again).status, 304, "weak comparison suffices");
    eventually("a strong tag", || {
        let response = client.get("/small.txt");
        (response.field("ETag") == Some(strong)).then_some(())
    });
}
