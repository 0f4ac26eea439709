//! The four forms of a request's target (RFC 9112, 3.2).

use crate::conformance::case::{Case, any, case, closed, get, is, open, rejected, request};
use crate::conformance::tree::FILE;

pub(crate) fn cases() -> Vec<Case> {
    let file = || open([is(200).body(FILE)]);
    let answered = |name, section, target: &str| case(name, section, get(target, ""), file());
    let bad = |name, section, target: &str| case(name, section, get(target, ""), rejected(&[400]));
    vec![
        answered("origin-form", "RFC 9112, 3.2.1", "/file.txt"),
        answered("origin-with-query", "RFC 9112, 3.2.1", "/file.txt?a=b"),
        answered("origin-with-empty-query", "RFC 9112, 3.2.1", "/file.txt?"),
        answered("origin-with-marks-in-query", "RFC 3986, 3.4", "/file.txt?a?b/c//../d"),
        answered("origin-with-escapes-in-query", "RFC 3986, 3.4", "/file.txt?%00%zz"),
        answered("absolute-form", "RFC 9112, 3.2.2", "http://a/file.txt"),
        answered("absolute-with-port", "RFC 9112, 3.2.2", "http://a:80/file.txt"),
        answered("absolute-with-empty-port", "RFC 9110, 4.2.3", "http://a:/file.txt"),
        answered("absolute-with-query", "RFC 9112, 3.2.2", "http://a/file.txt?b"),
        answered("absolute-upper-case-scheme", "RFC 9110, 4.2.3", "HTTP://a/file.txt"),
        answered("absolute-of-address", "RFC 3986, 3.2.2", "http://127.0.0.1/file.txt"),
        answered("absolute-of-address-6", "RFC 3986, 3.2.2", "http://[::1]:80/file.txt"),
        case(
            "absolute-without-path",
            "RFC 9110, 4.2.3",
            get("http://a", ""),
            open([is(200).body("<!doctype html>root")]),
        ),
        case(
            "absolute-query-without-path",
            "RFC 9110, 4.2.3",
            get("http://a?b", ""),
            open([is(200).body("<!doctype html>root")]),
        ),
        case(
            "absolute-overrides-host",
            "RFC 9112, 3.2.2",
            "GET http://b/file.txt HTTP/1.1\r\nHost: c\r\n\r\n",
            file(),
        ),
        case(
            "absolute-still-needs-host",
            "RFC 9112, 3.2",
            "GET http://a/file.txt HTTP/1.1\r\n\r\n",
            rejected(&[400]),
        ),
        case(
            "absolute-in-1.0",
            "RFC 9112, 3.2.2",
            "GET http://a/file.txt HTTP/1.0\r\n\r\n",
            closed([is(200).body(FILE)]),
        ),
        bad("absolute-without-host", "RFC 9110, 4.2.1", "http:///file.txt"),
        bad("absolute-port-only", "RFC 9110, 4.2.1", "http://:80/file.txt"),
        bad("absolute-with-user", "RFC 9110, 4.2.4", "http://u@a/file.txt"),
        bad("absolute-with-password", "RFC 9110, 4.2.4", "http://u:p@a/file.txt"),
        bad("absolute-with-letters-as-port", "RFC 3986, 3.2.3", "http://a:b/file.txt"),
        bad("absolute-one-slash", "RFC 9112, 3.2.2", "http:/file.txt"),
        bad("absolute-no-slash", "RFC 9112, 3.2.2", "http:file.txt"),
        bad("absolute-with-backslash", "RFC 3986, 3.2", "http:\\\\a\\file.txt"),
        bad("absolute-backslash-in-host", "RFC 3986, 3.2.2", "http://a\\b/file.txt"),
        bad("absolute-unclosed-bracket", "RFC 3986, 3.2.2", "http://[::1/file.txt"),
        bad("absolute-of-another-scheme", "RFC 9110, 7.4", "ftp://a/file.txt"),
        bad("absolute-of-file", "RFC 9110, 7.4", "file:///etc/passwd"),
        bad("relative-path", "RFC 9112, 3.2.1", "file.txt"),
        bad("dots-first", "RFC 9112, 3.2.1", "../file.txt"),
        bad("query-only", "RFC 9112, 3.2.1", "?a"),
        bad("backslash-first", "RFC 9112, 3.2.1", "\\file.txt"),
        bad("authority-for-get", "RFC 9112, 3.2.3", "a:80"),
        bad("asterisk-for-get", "RFC 9112, 3.2.4", "*"),
        bad("asterisk-and-more", "RFC 9112, 3.2.4", "*/file.txt"),
        bad("fragment", "RFC 9112, 3.2", "/file.txt#a"),
        bad("fragment-behind-query", "RFC 9112, 3.2", "/file.txt?a#b"),
        bad("nul", "RFC 9112, 3.2", "/file.txt\0"),
        bad("control", "RFC 9112, 3.2", "/file\x01.txt"),
        bad("delete", "RFC 9112, 3.2", "/file\x7f.txt"),
        bad("nul-in-query", "RFC 9112, 3.2", "/file.txt?\0"),
        case(
            "no-utf-8",
            "RFC 9112, 3.2",
            b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
            rejected(&[400]),
        ),
        case(
            "connect",
            "RFC 9110, 9.3.6",
            "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
            rejected(&[400, 405, 501]),
        ),
        case(
            "connect-with-path",
            "RFC 9112, 3.2.3",
            request("CONNECT", "/file.txt", ""),
            rejected(&[400, 405, 501]),
        ),
        case(
            "asterisk-for-options",
            "RFC 9112, 3.2.4",
            request("OPTIONS", "*", ""),
            open([any(&[200, 204]).has("Allow")]),
        ),
        case(
            "absolute-asterisk",
            "RFC 9112, 3.2.4",
            request("OPTIONS", "http://a", ""),
            open([any(&[200, 204]).has("Allow")]),
        ),
        case(
            "asterisk-for-options-1.0",
            "RFC 9112, 3.2.4",
            "OPTIONS * HTTP/1.0\r\n\r\n",
            closed([any(&[200, 204]).has("Allow")]),
        ),
        case(
            "asterisk-for-head",
            "RFC 9112, 3.2.4",
            request("HEAD", "*", ""),
            closed([is(400).headless()]),
        ),
    ]
}
