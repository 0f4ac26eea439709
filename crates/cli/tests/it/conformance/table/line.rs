//! Request lines (RFC 9112, 2 and 3).

use crate::conformance::case::{Case, any, case, closed, is, open, rejected};
use crate::conformance::tree::FILE;

pub(crate) fn cases() -> Vec<Case> {
    let with_host = |line: &str| format!("{line}\r\nHost: a\r\n\r\n");
    let answered = || open([is(200).body(FILE)]);
    let bad = |name, section, line: &str| case(name, section, with_host(line), rejected(&[400]));
    let version =
        |name, line: &str| case(name, "RFC 9110, 15.6.6", with_host(line), rejected(&[505, 400]));
    vec![
        case("plain", "RFC 9112, 3", with_host("GET /file.txt HTTP/1.1"), answered()),
        case(
            "later-minor-version",
            "RFC 9110, 2.5",
            with_host("GET /file.txt HTTP/1.2"),
            answered(),
        ),
        case(
            "last-minor-version",
            "RFC 9110, 2.5",
            with_host("GET /file.txt HTTP/1.9"),
            answered(),
        ),
        case(
            "one-empty-line-before",
            "RFC 9112, 2.2",
            format!("\r\n{}", with_host("GET /file.txt HTTP/1.1")),
            answered(),
        ),
        bad("space-first", "RFC 9112, 2.2", " GET /file.txt HTTP/1.1"),
        bad("two-spaces-before-target", "RFC 9112, 3", "GET  /file.txt HTTP/1.1"),
        bad("two-spaces-before-version", "RFC 9112, 3", "GET /file.txt  HTTP/1.1"),
        bad("space-behind-version", "RFC 9112, 3", "GET /file.txt HTTP/1.1 "),
        bad("tab-before-target", "RFC 9112, 3", "GET\t/file.txt HTTP/1.1"),
        bad("tab-before-version", "RFC 9112, 3", "GET /file.txt\tHTTP/1.1"),
        bad("form-feed-before-version", "RFC 9112, 3", "GET /file.txt\u{c}HTTP/1.1"),
        bad("vertical-tab-before-target", "RFC 9112, 3", "GET\u{b}/file.txt HTTP/1.1"),
        bad("space-in-target", "RFC 9112, 3.2", "GET /a b.txt HTTP/1.1"),
        bad("no-target", "RFC 9112, 3", "GET HTTP/1.1"),
        bad("no-target-two-spaces", "RFC 9112, 3", "GET  HTTP/1.1"),
        bad("no-version", "RFC 9112, 3", "GET /file.txt"),
        bad("no-version-but-space", "RFC 9112, 3", "GET /file.txt "),
        bad("method-only", "RFC 9112, 3", "GET"),
        bad("version-only", "RFC 9112, 3", "HTTP/1.1"),
        bad("lower-case-protocol", "RFC 9112, 2.3", "GET /file.txt http/1.1"),
        bad("mixed-case-protocol", "RFC 9112, 2.3", "GET /file.txt Http/1.1"),
        bad("other-protocol", "RFC 9112, 2.3", "GET /file.txt HTTPS/1.1"),
        bad("other-protocol-same-length", "RFC 9112, 2.3", "GET /file.txt HTTQ/1.1"),
        bad("no-minor-version", "RFC 9112, 2.3", "GET /file.txt HTTP/1"),
        bad("dot-without-minor-version", "RFC 9112, 2.3", "GET /file.txt HTTP/1."),
        bad("two-digits-major", "RFC 9112, 2.3", "GET /file.txt HTTP/11.1"),
        bad("two-digits-minor", "RFC 9112, 2.3", "GET /file.txt HTTP/1.10"),
        bad("leading-zero-major", "RFC 9112, 2.3", "GET /file.txt HTTP/01.1"),
        bad("comma-in-version", "RFC 9112, 2.3", "GET /file.txt HTTP/1,1"),
        bad("space-in-version", "RFC 9112, 2.3", "GET /file.txt HTTP/ 1.1"),
        bad("letter-in-version", "RFC 9112, 2.3", "GET /file.txt HTTP/1.x"),
        bad("sign-in-version", "RFC 9112, 2.3", "GET /file.txt HTTP/+1.1"),
        bad("nul-in-version", "RFC 9112, 2.3", "GET /file.txt HTTP/1.1\0"),
        bad("fourth-word", "RFC 9112, 3", "GET /file.txt HTTP/1.1 x"),
        version("version-2", "GET /file.txt HTTP/2.0"),
        version("version-3", "GET /file.txt HTTP/3.0"),
        version("version-9", "GET /file.txt HTTP/9.9"),
        version("version-0.9", "GET /file.txt HTTP/0.9"),
        version("version-0.0", "GET /file.txt HTTP/0.0"),
        case("old-0.9-line", "RFC 9112, 2.3", "GET /file.txt\r\n", rejected(&[400, 505])),
        case(
            "http2-preface",
            "RFC 9113, 3.4",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            rejected(&[505, 400]),
        ),
        bad("method-with-colon", "RFC 9110, 9.1", "GE:T /file.txt HTTP/1.1"),
        bad("method-with-parenthesis", "RFC 9110, 9.1", "GET() /file.txt HTTP/1.1"),
        bad("method-with-slash", "RFC 9110, 9.1", "GET/ /file.txt HTTP/1.1"),
        bad("method-with-nul", "RFC 9110, 9.1", "GET\0 /file.txt HTTP/1.1"),
        bad("method-with-delete", "RFC 9110, 9.1", "G\x7fT /file.txt HTTP/1.1"),
        bad("method-quoted", "RFC 9110, 9.1", "\"GET\" /file.txt HTTP/1.1"),
        case(
            "method-beyond-ascii",
            "RFC 9110, 9.1",
            b"G\xcbT /file.txt HTTP/1.1\r\nHost: a\r\n\r\n",
            rejected(&[400]),
        ),
        case(
            "tls-greeting",
            "RFC 9112, 2.2",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
            rejected(&[400]),
        ),
        case("binary-noise", "RFC 9112, 2.2", b"\xff\xfe\0\x01\r\n\r\n", rejected(&[400])),
        case("colon-first", "RFC 9112, 3", ": a\r\n\r\n", rejected(&[400])),
        case(
            "lone-lf-behind-line",
            "RFC 9112, 2.2",
            "GET /file.txt HTTP/1.1\nHost: a\r\n\r\n",
            rejected(&[400]),
        ),
        case(
            "lone-lf-before-line",
            "RFC 9112, 2.2",
            "\nGET /file.txt HTTP/1.1\r\nHost: a\r\n\r\n",
            rejected(&[400]),
        ),
        case(
            "lone-cr-behind-line",
            "RFC 9112, 2.2",
            "GET /file.txt HTTP/1.1\rHost: a\r\n\r\n",
            rejected(&[400]),
        ),
        case(
            "lone-cr-in-target",
            "RFC 9112, 2.2",
            "GET /file\r.txt HTTP/1.1\r\nHost: a\r\n\r\n",
            rejected(&[400]),
        ),
        case(
            "two-cr-behind-line",
            "RFC 9112, 2.2",
            "GET /file.txt HTTP/1.1\r\r\nHost: a\r\n\r\n",
            rejected(&[400]),
        ),
        case(
            "many-empty-lines-before",
            "RFC 9112, 2.2",
            format!("{}{}", "\r\n".repeat(100), with_host("GET /file.txt HTTP/1.1")),
            rejected(&[400]),
        ),
        case(
            "field-before-line",
            "RFC 9112, 2.1",
            "Host: a\r\nGET /file.txt HTTP/1.1\r\n\r\n",
            rejected(&[400]),
        ),
        case(
            "folded-line",
            "RFC 9112, 3",
            "GET\r\n /file.txt HTTP/1.1\r\nHost: a\r\n\r\n",
            rejected(&[400]),
        ),
        case(
            "response-as-request",
            "RFC 9112, 2.1",
            "HTTP/1.1 200 OK\r\nHost: a\r\n\r\n",
            rejected(&[400, 501]),
        ),
        case("http-1.0", "RFC 9112, 9.3", "GET /file.txt HTTP/1.0\r\n\r\n", {
            closed([any(&[200]).body(FILE)])
        }),
    ]
}
