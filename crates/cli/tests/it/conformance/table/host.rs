//! The `Host` field (RFC 9112, 3.2; RFC 9110, 7.2).

use crate::conformance::case::{Case, case, closed, is, open, rejected};
use crate::conformance::tree::FILE;

pub(crate) fn cases() -> Vec<Case> {
    let lines = |lines: &str| format!("GET /file.txt HTTP/1.1\r\n{lines}\r\n");
    let answered = |name, section, value: &str| {
        let send = lines(&format!("Host:{value}\r\n"));
        case(format!("host-{name}"), section, send, open([is(200).body(FILE)]))
    };
    let bad = |name, section, value: &str| {
        let send = lines(&format!("Host: {value}\r\n"));
        case(format!("host-{name}"), section, send, rejected(&[400]))
    };
    let mut cases = vec![
        answered("name", "RFC 9110, 7.2", " a.example"),
        answered("and-port", "RFC 9110, 7.2", " a.example:8080"),
        answered("and-empty-port", "RFC 3986, 3.2.3", " a.example:"),
        answered("address", "RFC 3986, 3.2.2", " 127.0.0.1:80"),
        answered("address-6", "RFC 3986, 3.2.2", " [::1]"),
        answered("address-6-and-port", "RFC 3986, 3.2.2", " [2001:db8::1]:80"),
        answered("without-space", "RFC 9112, 5.1", "a"),
        answered("with-tabs", "RFC 9112, 5.1", "\ta\t "),
        answered("upper-case", "RFC 3986, 3.2.2", " A.EXAMPLE"),
        answered("final-dot", "RFC 3986, 3.2.2", " a.example."),
        answered("punycode", "RFC 3986, 3.2.2", " xn--bcher-kva.example"),
        answered("underscore", "RFC 3986, 3.2.2", " a_b"),
        bad("with-path", "RFC 9112, 3.2", "a/b"),
        bad("with-scheme", "RFC 9112, 3.2", "http://a"),
        bad("with-query", "RFC 9112, 3.2", "a?b"),
        bad("with-fragment", "RFC 9112, 3.2", "a#b"),
        bad("with-user", "RFC 9112, 3.2", "u@a"),
        bad("with-space", "RFC 9112, 3.2", "a b"),
        bad("with-comma-list", "RFC 9112, 3.2", "a, b"),
        bad("port-of-letters", "RFC 9112, 3.2", "a:http"),
        bad("port-too-long", "RFC 9112, 3.2", "a:808080"),
        bad("two-ports", "RFC 9112, 3.2", "a:80:80"),
        bad("port-only", "RFC 9112, 3.2", ":80"),
        bad("negative-port", "RFC 9112, 3.2", "a:-80"),
        bad("unclosed-bracket", "RFC 9112, 3.2", "[::1"),
        bad("empty-brackets", "RFC 9112, 3.2", "[]"),
        bad("bare-address-6", "RFC 9112, 3.2", "::1"),
        bad("behind-bracket", "RFC 9112, 3.2", "[::1]a"),
        bad("backslash", "RFC 9112, 3.2", "a\\b"),
        bad("quote", "RFC 9112, 3.2", "\"a\""),
        bad("angle", "RFC 9112, 3.2", "<script>"),
        bad("beyond-ascii", "RFC 9112, 3.2", "b\u{fc}cher.example"),
        bad("nul", "RFC 9112, 3.2", "a\0b"),
        bad("empty", "RFC 9112, 3.2", ""),
    ];
    cases.extend([
        case("no-host", "RFC 9112, 3.2", lines(""), rejected(&[400])),
        case("no-host-but-others", "RFC 9112, 3.2", lines("X-Host: a\r\n"), rejected(&[400])),
        case("two-hosts", "RFC 9112, 3.2", lines("Host: a\r\nHost: b\r\n"), rejected(&[400])),
        case("same-host-twice", "RFC 9112, 3.2", lines("Host: a\r\nHost: a\r\n"), rejected(&[400])),
        case(
            "two-hosts-apart-in-case",
            "RFC 9112, 3.2",
            lines("Host: a\r\nX: y\r\nHOST: b\r\n"),
            rejected(&[400]),
        ),
        case(
            "host-last-of-many",
            "RFC 9112, 3.2",
            lines("X: 1\r\nY: 2\r\nZ: 3\r\nHost: a\r\n"),
            open([is(200).body(FILE)]),
        ),
        case("host-lower-case", "RFC 9110, 5.1", lines("host: a\r\n"), open([is(200).body(FILE)])),
        case(
            "host-needed-by-1.2",
            "RFC 9112, 3.2",
            "GET /file.txt HTTP/1.2\r\n\r\n",
            rejected(&[400]),
        ),
        case(
            "no-host-in-1.0",
            "RFC 9112, 3.2",
            "GET /file.txt HTTP/1.0\r\n\r\n",
            closed([is(200).body(FILE)]),
        ),
        case(
            "two-hosts-in-1.0",
            "RFC 9112, 3.2",
            "GET /file.txt HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
            rejected(&[400]),
        ),
        case(
            "invalid-host-in-1.0",
            "RFC 9112, 3.2",
            "GET /file.txt HTTP/1.0\r\nHost: a/b\r\n\r\n",
            rejected(&[400]),
        ),
    ]);
    cases
}
