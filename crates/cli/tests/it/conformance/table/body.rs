//! Bodies in chunks (RFC 9112, 7.1).

use crate::conformance::case::{Case, any, case, closed, is, open, request};

/// The request is answered from its head; the error within its body gets a second response.
fn broken() -> crate::conformance::case::Requirements {
    closed([is(405), any(&[400, 413, 431])])
}

pub(crate) fn cases() -> Vec<Case> {
    let post = |body: &[u8]| {
        let head = request("POST", "/file.txt", "Transfer-Encoding: chunked\r\n");
        [head.as_bytes(), body].concat()
    };
    let answered = |name: &str, section, body: &str| {
        case(format!("chunks-{name}"), section, post(body.as_bytes()), open([is(405)]))
    };
    let bad = |name: &str, section, body: &str| {
        case(format!("chunks-{name}"), section, post(body.as_bytes()), broken())
    };
    vec![
        answered("none", "RFC 9112, 7.1", "0\r\n\r\n"),
        answered("one", "RFC 9112, 7.1", "5\r\nhello\r\n0\r\n\r\n"),
        answered("two", "RFC 9112, 7.1", "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"),
        answered("upper-case-size", "RFC 9112, 7.1", "A\r\n0123456789\r\n0\r\n\r\n"),
        answered("lower-case-size", "RFC 9112, 7.1", "a\r\n0123456789\r\n0\r\n\r\n"),
        answered("size-with-zeros", "RFC 9112, 7.1", "00005\r\nhello\r\n000\r\n\r\n"),
        answered("with-crlf-within", "RFC 9112, 7.1", "4\r\n\r\n\r\n\r\n0\r\n\r\n"),
        answered("that-look-like-an-end", "RFC 9112, 7.1", "5\r\n0\r\n\r\n\r\n0\r\n\r\n"),
        answered("extension", "RFC 9112, 7.1.1", "5;a\r\nhello\r\n0\r\n\r\n"),
        answered(
            "extension-with-value",
            "RFC 9112, 7.1.1",
            "5;a=b\r\nhello\r\n0;c=\"d;e\"\r\n\r\n",
        ),
        answered("extension-behind-space", "RFC 9112, 7.1.1", "5 ;a = b\r\nhello\r\n0\r\n\r\n"),
        answered("extensions", "RFC 9112, 7.1.1", "5;a;b=c;d=\"e;\\\"\"\r\nhello\r\n0\r\n\r\n"),
        answered("extension-in-tabs", "RFC 9112, 7.1.1", "5\t;\ta\t=\tb\r\nhello\r\n0\r\n\r\n"),
        answered("trailer", "RFC 9112, 7.1.2", "0\r\nX: y\r\n\r\n"),
        answered("trailers", "RFC 9112, 7.1.2", "5\r\nhello\r\n0\r\nX: y\r\nZ:\r\n\r\n"),
        bad("size-missing", "RFC 9112, 7.1", "\r\nhello\r\n0\r\n\r\n"),
        bad("size-of-letters", "RFC 9112, 7.1", "xyz\r\nhello\r\n0\r\n\r\n"),
        bad("size-negative", "RFC 9112, 7.1", "-5\r\nhello\r\n0\r\n\r\n"),
        bad("size-plus", "RFC 9112, 7.1", "+5\r\nhello\r\n0\r\n\r\n"),
        bad("size-0x", "RFC 9112, 7.1", "0x5\r\nhello\r\n0\r\n\r\n"),
        bad("size-behind-space", "RFC 9112, 7.1", " 5\r\nhello\r\n0\r\n\r\n"),
        bad("size-underscore", "RFC 9112, 7.1", "1_0\r\nhello\r\n0\r\n\r\n"),
        bad("size-two-words", "RFC 9112, 7.1", "5 5\r\nhello\r\n0\r\n\r\n"),
        bad("size-overflow", "RFC 9112, 7.1", "10000000000000005\r\nhello\r\n0\r\n\r\n"),
        bad("size-of-64-bits", "RFC 9112, 7.1", "ffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
        bad(
            "size-many-zeros",
            "RFC 9112, 7.1",
            "00000000000000000000000000000005\r\nhello\r\n0\r\n\r\n",
        ),
        bad("size-line-ends-in-lf", "RFC 9112, 2.2", "5\nhello\r\n0\r\n\r\n"),
        bad("size-line-ends-in-cr", "RFC 9112, 2.2", "5\rhello\r\n0\r\n\r\n"),
        bad("size-line-ends-in-cr-cr-lf", "RFC 9112, 2.2", "5\r\r\nhello\r\n0\r\n\r\n"),
        bad("lf-in-extension", "RFC 9112, 7.1.1", "5;a\nhello\r\n0\r\n\r\n"),
        bad("nul-in-extension", "RFC 9112, 7.1.1", "5;a\0\r\nhello\r\n0\r\n\r\n"),
        bad("cr-in-extension", "RFC 9112, 7.1.1", "5;a\rb\r\nhello\r\n0\r\n\r\n"),
        bad("extension-without-name", "RFC 9112, 7.1.1", "5;\r\nhello\r\n0\r\n\r\n"),
        bad("extension-of-value", "RFC 9112, 7.1.1", "5;=b\r\nhello\r\n0\r\n\r\n"),
        bad("extension-without-value", "RFC 9112, 7.1.1", "5;a=\r\nhello\r\n0\r\n\r\n"),
        bad("extension-no-token", "RFC 9112, 7.1.1", "5;bad[=x\r\nhello\r\n0\r\n\r\n"),
        bad("extension-two-words", "RFC 9112, 7.1.1", "5;a b\r\nhello\r\n0\r\n\r\n"),
        bad("extension-open-string", "RFC 9112, 7.1.1", "5;a=\"b\r\nhello\r\n0\r\n\r\n"),
        bad("extension-behind-string", "RFC 9112, 7.1.1", "5;a=\"b\"c\r\nhello\r\n0\r\n\r\n"),
        bad("extension-before-spaces", "RFC 9112, 7.1.1", "5;a=b \r\nhello\r\n0\r\n\r\n"),
        bad("extension-of-last-chunk", "RFC 9112, 7.1.1", "5\r\nhello\r\n0;\r\n\r\n"),
        bad(
            "extension-of-9000",
            "RFC 9112, 7.1.1",
            &format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(9000)),
        ),
        bad(
            "extensions-of-9000",
            "RFC 9112, 7.1.1",
            &format!("{}0\r\n\r\n", "1;abcdefg\r\nx\r\n".repeat(1100)),
        ),
        bad("longer-than-size", "RFC 9112, 7.1", "4\r\nhello\r\n0\r\n\r\n"),
        bad("shorter-than-size", "RFC 9112, 7.1", "6\r\nhello\r\n0\r\n\r\n"),
        bad("data-ends-in-lf", "RFC 9112, 2.2", "5\r\nhello\n0\r\n\r\n"),
        bad("data-ends-in-nothing", "RFC 9112, 7.1", "5\r\nhello0\r\n\r\n"),
        bad("data-ends-in-spaces", "RFC 9112, 7.1", "5\r\nhello  0\r\n\r\n"),
        bad("last-ends-in-lf", "RFC 9112, 2.2", "0\n\n"),
        bad("end-in-lf", "RFC 9112, 2.2", "0\r\n\n"),
        bad("end-in-cr", "RFC 9112, 2.2", "0\r\n\rx"),
        bad("trailer-without-colon", "RFC 9112, 7.1.2", "0\r\nX\r\n\r\n"),
        bad("trailer-without-name", "RFC 9112, 7.1.2", "0\r\n: y\r\n\r\n"),
        bad("trailer-space-before-colon", "RFC 9112, 5.1", "0\r\nX : y\r\n\r\n"),
        bad("trailer-folded", "RFC 9112, 5.2", "0\r\nX: y\r\n z\r\n\r\n"),
        bad("trailer-ends-in-lf", "RFC 9112, 2.2", "0\r\nX: y\n\r\n"),
        bad("trailer-with-nul", "RFC 9110, 5.5", "0\r\nX: y\0\r\n\r\n"),
        bad("trailer-with-length", "RFC 9110, 6.5.1", "0\r\nContent-Length: 5\r\n\r\n"),
        bad("trailer-with-coding", "RFC 9110, 6.5.1", "0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        bad("trailer-with-host", "RFC 9110, 6.5.1", "0\r\nHost: b\r\n\r\n"),
    ]
}
