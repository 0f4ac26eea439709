//! The end of a request's body (RFC 9112, 6), on which request smuggling depends.

use crate::conformance::case::{
    Case, any, as_announced, case, closed, is, open, rejected, request,
};
use crate::conformance::tree::FILE;

pub(crate) fn cases() -> Vec<Case> {
    // The body is itself a request, which must never be answered.
    const INNER: &str = "GET /dir/ HTTP/1.1\r\nHost: a\r\n\r\n";
    let post = |lines: &str, body: &str| request("POST", "/file.txt", lines) + body;
    let passed = || open([is(405)]);
    let bad = |name, section, lines: &str| {
        case(name, section, post(lines, "0\r\n\r\n"), rejected(&[400, 501]))
    };
    let length = |name: &str, value: &str| {
        let lines = format!("Content-Length:{value}\r\n");
        case(format!("length-{name}"), "RFC 9112, 6.3", post(&lines, "hello"), rejected(&[400]))
    };
    let coding = |name: &str, value: &[u8]| {
        let head = &b"POST /file.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:"[..];
        let send = [head, value, b"\r\n\r\n0\r\n\r\n"].concat();
        case(format!("coding-{name}"), "RFC 9112, 6.1", send, rejected(&[400, 501]))
    };
    let mut cases = vec![
        case("length", "RFC 9112, 6.3", post("Content-Length: 5\r\n", "hello"), passed()),
        case("length-zero", "RFC 9112, 6.3", post("Content-Length: 0\r\n", ""), passed()),
        case(
            "length-with-zeros",
            "RFC 9110, 8.6",
            post("Content-Length: 0005\r\n", "hello"),
            passed(),
        ),
        case(
            "length-of-a-request",
            "RFC 9112, 6.3",
            post(&format!("Content-Length: {}\r\n", INNER.len()), INNER),
            passed(),
        ),
        case("no-length-no-body", "RFC 9112, 6.3", post("", ""), passed()),
        case(
            "get-with-body",
            "RFC 9110, 9.3.1",
            request("GET", "/file.txt", "Content-Length: 5\r\n") + "hello",
            open([is(200).body(FILE)]),
        ),
        case(
            "get-with-chunks",
            "RFC 9110, 9.3.1",
            request("GET", "/file.txt", "Transfer-Encoding: chunked\r\n")
                + "5\r\nhello\r\n0\r\n\r\n",
            open([is(200).body(FILE)]),
        ),
        case(
            "head-with-body",
            "RFC 9110, 9.3.2",
            request("HEAD", "/file.txt", "Content-Length: 5\r\n") + "hello",
            open([is(200).headless()]),
        ),
        case(
            "options-with-body",
            "RFC 9110, 9.3.7",
            request("OPTIONS", "*", "Content-Length: 5\r\n") + "hello",
            open([any(&[200, 204])]),
        ),
        case(
            "missing-file-with-body",
            "RFC 9112, 9.3",
            request("GET", "/missing", &format!("Content-Length: {}\r\n", INNER.len())) + INNER,
            open([is(404)]),
        ),
        case(
            "same-length-twice",
            "RFC 9112, 6.3",
            post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"),
            as_announced(any(&[400, 405])),
        ),
        bad(
            "length-and-coding",
            "RFC 9112, 6.1",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        ),
        bad(
            "coding-and-length",
            "RFC 9112, 6.1",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        ),
        bad(
            "coding-and-length-zero",
            "RFC 9112, 6.1",
            "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        ),
        bad("two-lengths", "RFC 9112, 6.3", "Content-Length: 5\r\nContent-Length: 6\r\n"),
        bad("two-lengths-one-empty", "RFC 9112, 6.3", "Content-Length: 5\r\nContent-Length:\r\n"),
        bad("two-lengths-by-case", "RFC 9112, 6.3", "Content-Length: 5\r\ncontent-length: 0\r\n"),
        bad("length-with-space-in-name", "RFC 9112, 5.1", "Content-Length : 5\r\n"),
        bad("coding-with-space-in-name", "RFC 9112, 5.1", "Transfer-Encoding : chunked\r\n"),
        bad("coding-behind-a-fold", "RFC 9112, 5.2", "X: y\r\n Transfer-Encoding: chunked\r\n"),
        bad("coding-folded", "RFC 9112, 5.2", "Transfer-Encoding:\r\n chunked\r\n"),
        bad("length-folded", "RFC 9112, 5.2", "Content-Length:\r\n 5\r\n"),
        bad("coding-behind-lf", "RFC 9112, 2.2", "X: y\nTransfer-Encoding: chunked\r\n"),
        bad("coding-behind-cr", "RFC 9112, 2.2", "X: y\rTransfer-Encoding: chunked\r\n"),
        bad(
            "coding-twice",
            "RFC 9112, 6.1",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        ),
        bad(
            "coding-then-identity",
            "RFC 9112, 6.1",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        ),
        bad(
            "identity-then-coding",
            "RFC 9112, 6.1",
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        ),
        case(
            "coding-any-case",
            "RFC 9112, 7",
            post("transfer-ENCODING: ChUnKeD\r\n", "0\r\n\r\n"),
            passed(),
        ),
        case(
            "coding-with-space-around",
            "RFC 9112, 5.1",
            post("Transfer-Encoding: \t chunked \t\r\n", "0\r\n\r\n"),
            passed(),
        ),
        case(
            "coding-in-1.0",
            "RFC 9112, 6.1",
            "POST /file.txt HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            rejected(&[400, 501]),
        ),
        case(
            "coding-in-1.0-kept-alive",
            "RFC 9112, 6.1",
            "POST /file.txt HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            rejected(&[400, 501]),
        ),
        case(
            "smuggled-behind-bad-length",
            "RFC 9112, 6.3",
            post("Content-Length: 5, 6\r\n", "") + INNER,
            rejected(&[400]),
        ),
        case(
            "smuggled-behind-both",
            "RFC 9112, 6.1",
            post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n") + INNER,
            rejected(&[400]),
        ),
        case(
            "body-larger-than-taken",
            "RFC 9110, 15.5.14",
            post("Content-Length: 99999999\r\n", "hello"),
            closed([any(&[405, 413])]),
        ),
        case(
            "length-of-64-bits",
            "RFC 9110, 8.6",
            post("Content-Length: 18446744073709551615\r\n", "hello"),
            closed([any(&[400, 405, 413])]),
        ),
    ];
    cases.extend([
        length("plus", " +5"),
        length("minus", " -5"),
        length("hexadecimal", " 0x5"),
        length("letters", " five"),
        length("letters-behind", " 5a"),
        length("decimal-point", " 5.0"),
        length("exponent", " 5e0"),
        length("space-within", " 1 5"),
        length("list-of-two", " 5, 6"),
        length("empty-in-list", " 5,"),
        length("comma-only", " ,"),
        length("empty", ""),
        length("white-space", " \t "),
        length("quoted", " \"5\""),
        length("underscore", " 1_0"),
        length("too-long-for-64-bits", " 18446744073709551616"),
        length("wraps-to-five", " 18446744073709551621"),
        length("fifty-digits", " 55555555555555555555555555555555555555555555555555"),
        length("vertical-tab", " \x0b5"),
        length("nul", " 5\0"),
        length("arabic-digits", " \u{665}"),
        length("semicolon", " 5;a"),
    ]);
    cases.extend([
        coding("obfuscated-x", b" xchunked"),
        coding("obfuscated-behind", b" chunkedx"),
        coding("identity", b" identity"),
        coding("gzip", b" gzip"),
        coding("gzip-then-chunked", b" gzip, chunked"),
        coding("chunked-then-gzip", b" chunked, gzip"),
        coding("chunked-twice", b" chunked, chunked"),
        coding("chunked-then-identity", b" chunked, identity"),
        coding("identity-then-chunked", b" identity, chunked"),
        coding("empty", b""),
        coding("comma-only", b" ,"),
        coding("quoted", b" \"chunked\""),
        coding("single-quoted", b" 'chunked'"),
        coding("with-parameter", b" chunked;a=b"),
        coding("with-quality", b" chunked;q=0.5"),
        coding("vertical-tab", b" \x0bchunked"),
        coding("form-feed", b" chunked\x0c"),
        coding("nul", b" chunked\0"),
        coding("cut-by-space", b" chun ked"),
        coding("no-break-space", b" \xa0chunked"),
        coding("long-s", " chun\u{212a}ed".as_bytes()),
        coding("cr-before", b" \rchunked"),
        coding("underscore", b" chunked_"),
        coding("cow", b" cow"),
    ]);
    cases
}
