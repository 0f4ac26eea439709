//! HEAD is GET without the content (RFC 9110, 9.3.2): the same fields, and not one byte more.

use crate::conformance::case::{Answer, Case, any, case, closed, get, is, open, request};
use crate::conformance::tree::{AFTER, CHANGED, FILE, LARGE};

pub(crate) fn cases() -> Vec<Case> {
    let section = "RFC 9110, 9.3.2";
    let head = |name: &str, target: &str, lines: &str, answer: Answer| {
        let send = request("HEAD", target, lines);
        case(format!("head-{name}"), section, send, open([answer.headless()]))
    };
    let length = FILE.len().to_string();
    vec![
        case(
            "get-of-file",
            "RFC 9110, 9.3.1",
            get("/file.txt", ""),
            open([is(200)
                .body(FILE)
                .field("Content-Length", length.as_str())
                .field("Last-Modified", CHANGED)
                .field("Accept-Ranges", "bytes")
                .begins("Content-Type", "text/plain")
                .has("ETag")
                .lacks("Transfer-Encoding")
                .lacks("Content-Encoding")]),
        ),
        head(
            "of-file",
            "/file.txt",
            "",
            is(200)
                .field("Content-Length", length.as_str())
                .field("Last-Modified", CHANGED)
                .field("Accept-Ranges", "bytes")
                .begins("Content-Type", "text/plain")
                .has("ETag"),
        ),
        head("of-empty-file", "/empty.txt", "", is(200).field("Content-Length", "0")),
        head("of-large-file", "/large.bin", "", is(200).field("Content-Length", LARGE.to_string())),
        head("of-index", "/", "", is(200).begins("Content-Type", "text/html")),
        head("of-directory", "/dir", "", any(&[301, 308]).has("Location")),
        head("of-missing-file", "/missing", "", is(404)),
        head("of-a-way-out", "/..%2fsecret", "", any(&[400, 403, 404])),
        head(
            "not-modified",
            "/file.txt",
            &format!("If-Modified-Since: {CHANGED}\r\n"),
            is(304).lacks("Content-Type"),
        ),
        head("precondition", "/file.txt", "If-Match: \"no\"\r\n", is(412)),
        head(
            "range-is-not-heeded",
            "/file.txt",
            "Range: bytes=0-4\r\n",
            is(200).field("Content-Length", length.as_str()).lacks("Content-Range"),
        ),
        head(
            "unsatisfiable-range-is-not-heeded",
            "/file.txt",
            "Range: bytes=900-\r\n",
            is(200).field("Content-Length", length.as_str()),
        ),
        case(
            "head-then-get",
            section,
            request("HEAD", "/file.txt", "") + &get("/file.txt", ""),
            open([is(200).headless(), is(200).body(FILE)]),
        ),
        case(
            "three-heads-of-different-kinds",
            section,
            ["/missing", "/dir", "/large.bin"].map(|path| request("HEAD", path, "")).concat(),
            open([is(404).headless(), any(&[301, 308]).headless(), is(200).headless()]),
        ),
        case(
            "head-in-1.0",
            section,
            "HEAD /file.txt HTTP/1.0\r\n\r\n",
            closed([is(200).headless().field("Content-Length", length.as_str())]),
        ),
        case(
            "head-and-close",
            section,
            request("HEAD", "/file.txt", "Connection: close\r\n"),
            closed([is(200).headless()]),
        ),
        case(
            "head-with-bad-field",
            section,
            request("HEAD", "/file.txt", "X : y\r\n"),
            closed([is(400).headless()]),
        ),
        case(
            "head-without-host",
            section,
            "HEAD /file.txt HTTP/1.1\r\n\r\n",
            closed([is(400).headless()]),
        ),
        case(
            "304-to-get-has-no-body",
            "RFC 9110, 15.4.5",
            get("/file.txt", &format!("If-Modified-Since: {AFTER}\r\n")) + &get("/file.txt", ""),
            open([is(304).lacks("Transfer-Encoding"), is(200).body(FILE)]),
        ),
    ]
}
