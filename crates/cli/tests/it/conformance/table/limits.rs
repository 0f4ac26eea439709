//! Limits on the size of a request (RFC 9112, 3; RFC 6585, 5).

use crate::conformance::case::{Case, any, case, closed, get, is, open, rejected, request};
use crate::conformance::tree::FILE;

pub(crate) fn cases() -> Vec<Case> {
    let query = |count: usize| get(&format!("/file.txt?{}", "a".repeat(count)), "");
    let value = |count: usize| get("/file.txt", &format!("X: {}\r\n", "y".repeat(count)));
    let lines = |count: usize| {
        get("/file.txt", &(0..count).map(|at| format!("X-{at}: y\r\n")).collect::<String>())
    };
    let file = || open([is(200).body(FILE)]);
    vec![
        // RFC 9112, 3 recommends to accept at least 8000.
        case("line-of-8000", "RFC 9112, 3", query(7970), file()),
        case("line-of-20000", "RFC 9110, 15.5.15", query(20_000), rejected(&[414, 400, 431])),
        case("line-of-200000", "RFC 9110, 15.5.15", query(200_000), rejected(&[414, 400, 431])),
        case(
            "line-without-an-end",
            "RFC 9110, 15.5.15",
            "GET /".to_owned() + &"a".repeat(100_000),
            rejected(&[414, 400, 431]),
        ),
        case(
            "method-without-an-end",
            "RFC 9112, 3",
            "A".repeat(100_000),
            rejected(&[414, 400, 431, 501]),
        ),
        case("field-of-4000", "RFC 6585, 5", value(4000), file()),
        case("field-of-100000", "RFC 6585, 5", value(100_000), rejected(&[431, 400])),
        case(
            "field-without-an-end",
            "RFC 6585, 5",
            "GET /file.txt HTTP/1.1\r\nHost: a\r\nX: ".to_owned() + &"y".repeat(200_000),
            rejected(&[431, 400]),
        ),
        case(
            "name-of-100000",
            "RFC 6585, 5",
            get("/file.txt", &format!("{}: y\r\n", "x".repeat(100_000))),
            rejected(&[431, 400]),
        ),
        case("fields-60", "RFC 6585, 5", lines(60), file()),
        case("fields-5000", "RFC 6585, 5", lines(5000), rejected(&[431, 400])),
        case(
            "fields-empty-5000",
            "RFC 6585, 5",
            get("/file.txt", &"X:\r\n".repeat(5000)),
            rejected(&[431, 400]),
        ),
        case(
            "host-of-10000",
            "RFC 9112, 3.2",
            format!("GET /file.txt HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(100_000)),
            rejected(&[431, 400]),
        ),
        case(
            "limit-behind-good-ones",
            "RFC 6585, 5",
            get("/file.txt", "") + &lines(5000),
            closed([is(200).body(FILE), any(&[431, 400])]),
        ),
        case(
            "body-of-50000",
            "RFC 9110, 15.5.14",
            request("POST", "/file.txt", "Content-Length: 50000\r\n") + &"x".repeat(50_000),
            open([is(405)]),
        ),
        case(
            "chunk-too-large",
            "RFC 9110, 15.5.14",
            request("POST", "/file.txt", "Transfer-Encoding: chunked\r\n") + "7fffffff\r\nhello",
            closed([is(405), is(413)]),
        ),
        case(
            "chunk-extension-without-an-end",
            "RFC 9112, 7.1.1",
            request("POST", "/file.txt", "Transfer-Encoding: chunked\r\n")
                + "5;"
                + &"x".repeat(100_000),
            closed([is(405), any(&[400, 413, 431])]),
        ),
        case(
            "trailers-without-an-end",
            "RFC 9112, 7.1.2",
            request("POST", "/file.txt", "Transfer-Encoding: chunked\r\n")
                + "0\r\n"
                + &"X: y\r\n".repeat(20_000),
            closed([is(405), any(&[400, 413, 431])]),
        ),
        case(
            "path-of-many-segments",
            "RFC 9110, 4.1",
            get(&format!("/{}", "a/".repeat(2000)), ""),
            open([any(&[404])]),
        ),
        case(
            "name-of-300-letters",
            "RFC 9110, 4.1",
            get(&format!("/{}", "a".repeat(300)), ""),
            open([any(&[404])]),
        ),
    ]
}
