//! Field lines (RFC 9112, 5; RFC 9110, 5).

use crate::conformance::case::{Case, case, get, is, open, rejected};
use crate::conformance::tree::FILE;

pub(crate) fn cases() -> Vec<Case> {
    let answered = |name, section, lines: &str| {
        case(format!("field-{name}"), section, get("/file.txt", lines), open([is(200).body(FILE)]))
    };
    let bad = |name, section, lines: &str| {
        case(format!("field-{name}"), section, get("/file.txt", lines), rejected(&[400]))
    };
    let mut cases = vec![
        answered("plain", "RFC 9112, 5", "X: y\r\n"),
        answered("without-space", "RFC 9112, 5.1", "X:y\r\n"),
        answered("with-white-space-around", "RFC 9112, 5.1", "X: \t y \t \r\n"),
        answered("empty", "RFC 9110, 5.5", "X:\r\n"),
        answered("of-white-space", "RFC 9110, 5.5", "X: \t \r\n"),
        answered("with-space-within", "RFC 9110, 5.5", "X: a b\tc\r\n"),
        answered("with-colons", "RFC 9110, 5.5", "X: a:b:c\r\n"),
        answered("every-token-char", "RFC 9110, 5.6.2", "!#$%&'*+-.^_`|~09AZaz: y\r\n"),
        answered("unknown", "RFC 9110, 5.1", "Nobody-Knows-This: y\r\n"),
        answered("repeated", "RFC 9110, 5.3", "X: a\r\nX: b\r\n"),
        answered("beyond-ascii-utf-8", "RFC 9110, 5.5", "X: \u{e9}\u{4e2d}\r\n"),
        answered("quoted-string", "RFC 9110, 5.6.4", "X: \"a\\\"b, c\"\r\n"),
        answered("unclosed-quote", "RFC 9110, 5.5", "X: \"a\r\n"),
        answered("cookie", "RFC 6265, 4.2", "Cookie: a=b; c=d\r\n"),
        answered("upgrade-not-done", "RFC 9110, 7.8", "Connection: upgrade\r\nUpgrade: foo\r\n"),
        answered(
            "h2c-not-done",
            "RFC 9113, 3.1",
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
        ),
        answered("te-trailers", "RFC 9110, 10.1.4", "TE: trailers\r\nConnection: TE\r\n"),
        answered("trailer-announced", "RFC 9110, 6.6.2", "Trailer: X\r\n"),
        answered("max-forwards", "RFC 9110, 7.6.2", "Max-Forwards: 0\r\n"),
        answered("accept-not-met", "RFC 9110, 12.5.1", "Accept: image/x-nothing\r\n"),
        answered(
            "cache-control",
            "RFC 9111, 5.2.1",
            "Cache-Control: no-cache\r\nPragma: no-cache\r\n",
        ),
        answered("date", "RFC 9110, 6.6.1", "Date: nonsense\r\n"),
        bad("space-before-colon", "RFC 9112, 5.1", "X : y\r\n"),
        bad("tab-before-colon", "RFC 9112, 5.1", "X\t: y\r\n"),
        bad("space-before-name", "RFC 9112, 5.2", " X: y\r\n"),
        bad("tab-before-name", "RFC 9112, 5.2", "\tX: y\r\n"),
        bad("folded", "RFC 9112, 5.2", "X: a\r\n b\r\n"),
        bad("folded-by-tab", "RFC 9112, 5.2", "X: a\r\n\tb\r\n"),
        bad("folded-empty", "RFC 9112, 5.2", "X: a\r\n \r\n"),
        bad("folded-host", "RFC 9112, 5.2", "X: a\r\n Host: b\r\n"),
        bad("without-colon", "RFC 9112, 5", "X y\r\n"),
        bad("name-only", "RFC 9112, 5", "X\r\n"),
        bad("without-name", "RFC 9112, 5", ": y\r\n"),
        bad("colon-only", "RFC 9112, 5", ":\r\n"),
        bad("space-in-name", "RFC 9110, 5.1", "X Y: z\r\n"),
        bad("slash-in-name", "RFC 9110, 5.1", "X/Y: z\r\n"),
        bad("quote-in-name", "RFC 9110, 5.1", "\"X\": z\r\n"),
        bad("parenthesis-in-name", "RFC 9110, 5.1", "X(): z\r\n"),
        bad("bracket-in-name", "RFC 9110, 5.1", "X[]: z\r\n"),
        bad("at-in-name", "RFC 9110, 5.1", "X@: z\r\n"),
        bad("comma-in-name", "RFC 9110, 5.1", "X,Y: z\r\n"),
        bad("nul-in-name", "RFC 9110, 5.1", "X\0: y\r\n"),
        bad("control-in-name", "RFC 9110, 5.1", "X\x01: y\r\n"),
        bad("delete-in-name", "RFC 9110, 5.1", "X\x7f: y\r\n"),
        bad("beyond-ascii-in-name", "RFC 9110, 5.1", "X\u{e9}: y\r\n"),
        bad("nul-in-value", "RFC 9110, 5.5", "X: a\0b\r\n"),
        bad("nul-behind-value", "RFC 9110, 5.5", "X: a\0\r\n"),
        bad("control-in-value", "RFC 9110, 5.5", "X: a\x01b\r\n"),
        bad("escape-in-value", "RFC 9110, 5.5", "X: a\x1bb\r\n"),
        bad("vertical-tab-in-value", "RFC 9110, 5.5", "X: a\x0bb\r\n"),
        bad("form-feed-in-value", "RFC 9110, 5.5", "X: a\x0cb\r\n"),
        bad("backspace-in-value", "RFC 9110, 5.5", "X: a\x08b\r\n"),
        bad("delete-in-value", "RFC 9110, 5.5", "X: a\x7fb\r\n"),
        bad("cr-in-value", "RFC 9112, 2.2", "X: a\rb\r\n"),
        bad("cr-before-value", "RFC 9112, 2.2", "X:\ra\r\n"),
        bad("two-cr-behind-value", "RFC 9112, 2.2", "X: a\r\r\n"),
        bad("cr-as-line-end", "RFC 9112, 2.2", "X: a\rY: b\r\n"),
        bad("lf-as-line-end", "RFC 9112, 2.2", "X: a\nY: b\r\n"),
        bad("lf-cr-as-line-end", "RFC 9112, 2.2", "X: a\n\rY: b\r\n"),
    ];
    cases.extend([
        case(
            "lf-ends-the-head",
            "RFC 9112, 2.2",
            "GET /file.txt HTTP/1.1\r\nHost: a\r\n\n",
            rejected(&[400]),
        ),
        case(
            "lf-lf-ends-the-head",
            "RFC 9112, 2.2",
            "GET /file.txt HTTP/1.1\r\nHost: a\n\n",
            rejected(&[400]),
        ),
        case(
            "space-first-behind-the-line",
            "RFC 9112, 2.2",
            "GET /file.txt HTTP/1.1\r\n Host: a\r\n\r\n",
            rejected(&[400]),
        ),
        case(
            "empty-fold-behind-the-line",
            "RFC 9112, 2.2",
            "GET /file.txt HTTP/1.1\r\n \r\nHost: a\r\n\r\n",
            rejected(&[400]),
        ),
        case(
            "latin-1-in-value",
            "RFC 9110, 5.5",
            b"GET /file.txt HTTP/1.1\r\nHost: a\r\nX: \xe9\xff\r\n\r\n",
            open([is(200).body(FILE)]),
        ),
    ]);
    cases
}
