//! Persistence of connections (RFC 9112, 9.3).

use crate::conformance::case::{Answer, Case, case, closed, get, is, open};
use crate::conformance::tree::FILE;

pub(crate) fn cases() -> Vec<Case> {
    let file = || is(200).body(FILE);
    let stays = |name: &str, send: String, answer: Answer| {
        case(name, "RFC 9112, 9.3", send, open([answer]))
    };
    let suffix_ranges =
        |name: &str, send: String| case(name, "RFC 9112, 9.3", send, closed([file()]));
    let old = |lines: &str| format!("GET /file.txt HTTP/1.0\r\n{lines}\r\n");
    let new = |lines: &str| get("/file.txt", lines);
    vec![
        stays("by-default", new(""), file()),
        stays("keep-alive-in-1.1", new("Connection: keep-alive\r\n"), file()),
        stays("unknown-option", new("Connection: x\r\n"), file()),
        stays("empty-connection", new("Connection:\r\n"), file()),
        stays("close-within-a-word", new("Connection: closed\r\n"), file()),
        stays("close-in-another-field", new("Proxy-Connection: close\r\n"), file()),
        stays("close-as-value", new("X: close\r\n"), file()),
        suffix_ranges("close", new("Connection: close\r\n")),
        suffix_ranges("close-any-case", new("connection: CLOSE\r\n")),
        suffix_ranges("close-in-list", new("Connection: x, close\r\n")),
        suffix_ranges("close-first-in-list", new("Connection: close, x\r\n")),
        suffix_ranges("close-among-empty-elements", new("Connection: ,, close,\r\n")),
        suffix_ranges("close-on-second-line", new("Connection: x\r\nConnection: close\r\n")),
        suffix_ranges("close-beside-keep-alive", new("Connection: keep-alive, close\r\n")),
        suffix_ranges(
            "close-against-keep-alive",
            new("Connection: close\r\nConnection: keep-alive\r\n"),
        ),
        suffix_ranges("1.0", old("")),
        suffix_ranges("1.0-close", old("Connection: close\r\n")),
        suffix_ranges("1.0-with-keep-alive-field-only", old("Keep-Alive: 300\r\n")),
        suffix_ranges("1.0-both", old("Connection: keep-alive, close\r\n")),
        stays(
            "1.0-keep-alive",
            old("Connection: keep-alive\r\n"),
            file().field("Connection", "keep-alive"),
        ),
        stays("1.0-keep-alive-any-case", old("Connection: Keep-Alive\r\n"), file()),
        stays("1.0-keep-alive-in-list", old("Connection: x, keep-alive\r\n"), file()),
        stays("behind-404", get("/missing", ""), is(404)),
        stays("behind-304", new("If-None-Match: *\r\n"), is(304)),
        stays("behind-412", new("If-Match: \"x\"\r\n"), is(412)),
        stays("behind-416", new("Range: bytes=900-\r\n"), is(416)),
        stays("behind-empty-file", get("/empty.txt", ""), is(200).body("")),
        case(
            "404-and-close",
            "RFC 9112, 9.6",
            get("/missing", "Connection: close\r\n"),
            closed([is(404)]),
        ),
        case(
            "304-and-close",
            "RFC 9112, 9.6",
            get("/file.txt", "If-None-Match: *\r\nConnection: close\r\n"),
            closed([is(304)]),
        ),
    ]
}
