//! Complete request heads, valid and invalid. Section numbers refer to RFC 9112 unless stated otherwise.

use phalanx_http::{Body, Limits, Method, Parse, Reject, Request, Scan, Version, parse};

fn request(head: &str) -> Result<Request<'_>, Reject> {
    match parse(head.as_bytes(), &Limits::default())? {
        Parse::Complete(request, length) => {
            assert_eq!(length, head.len(), "{head:?}");
            Ok(request)
        }
        Parse::Incomplete => panic!("incomplete: {head:?}"),
    }
}

/// The status of the rejection; 0 if the head is accepted, 1 if it is incomplete.
fn status(head: &[u8]) -> u16 {
    match parse(head, &Limits::default()) {
        Ok(Parse::Complete(..)) => 0,
        Ok(Parse::Incomplete) => 1,
        Err(reject) => reject.status.code(),
    }
}

#[test]
fn heads_are_accepted_or_rejected() {
    // (head, status or 0, reason)
    let table: &[(&str, u16, &str)] = &[
        // Host: 3.2
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0, "3.2"),
        ("GET / HTTP/1.1\r\nhOsT: a\r\n\r\n", 0, "5: names are case-insensitive"),
        ("GET / HTTP/1.1\r\nHost:a\r\n\r\n", 0, "5: white space is optional"),
        ("GET / HTTP/1.1\r\nHost: \t a \t \r\n\r\n", 0, "5: white space is optional"),
        ("GET / HTTP/1.1\r\n\r\n", 400, "3.2: no Host"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, "3.2: two Hosts"),
        ("GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", 400, "3.2: two Hosts"),
        ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400, "3.2: invalid Host"),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "3.2: invalid Host"),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, "3.2: invalid Host"),
        ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400, "RFC 9110, 4.2.4: user information"),
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n", 400, "RFC 9110, 4.2.1: empty host"),
        ("GET / HTTP/1.0\r\n\r\n", 0, "3.2: 1.0 may lack it"),
        ("GET / HTTP/1.0\r\nHost: a b\r\n\r\n", 400, "3.2: but not have a bad one"),
        ("GET http://a/ HTTP/1.1\r\n\r\n", 400, "3.2.2: Host is sent with an absolute target too"),
        ("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", 0, "3.2.2: the target's wins"),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 0, "3.2.4"),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400, "3.2.4"),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 405, "3.2.3: not a proxy"),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", 0, "RFC 9110, 2.5"),
        ("GET / HTTP/1.2\r\n\r\n", 400, "RFC 9110, 2.5: with the rules of 1.1"),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, "RFC 9110, 15.6.6"),
        ("GET /\r\n\r\n", 400, "HTTP/0.9"),
        // Content-Length: 6.2, 6.3
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 0, "6.2"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 05\r\n\r\n", 0, "6.2: leading zeros"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n", 0, "6.3: identical"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", 0, "6.3"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400, "6.3"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5,6\r\n\r\n", 400, "6.3: differing"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5,\r\n\r\n", 400, "6.3"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n", 400, "6.3: digits only"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400, "6.3: digits only"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\n", 400, "6.3: digits only"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\n", 400, "6.3: digits only"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5.0\r\n\r\n", 400, "6.3: digits only"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400, "6.3: empty"),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n",
            400,
            "6.3: overflow",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
            400,
            "6.3: overflow",
        ),
        // Transfer-Encoding: 6.1
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 0, "6.1"),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\n\r\n",
            0,
            "7: case-insensitive",
        ),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ,chunked\r\n\r\n", 0, "an empty element"),
        ("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "6.1: not in 1.0"),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 501, "6.1: unknown"),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "6.1: unknown"),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501, "6.1"),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 501, "7: withdrawn"),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;a=b\r\n\r\n", 501, "7.1"),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", 501, "7"),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n", 400, "6.3"),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", 400, "6.1"),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n", 400, "6.1: empty"),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
            "6.1: chunked twice, over two lines",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
            400,
            "6.1, 11.2: smuggling",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
            "6.1, 11.2: smuggling, in the other order",
        ),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n", 400, "a control"),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n", 400, "5.1"),
        // Field syntax: 5
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, "5.1: white space before the colon"),
        ("GET / HTTP/1.1\r\nHost\t: a\r\n\r\n", 400, "5.1: white space before the colon"),
        ("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400, "5.1: empty name"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX Y: b\r\n\r\n", 400, "5.1: not a token"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX(Y): b\r\n\r\n", 400, "5.1: not a token"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\u{e9}: b\r\n\r\n", 400, "5.1: not a token"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", 400, "5.1: no colon"),
        ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400, "2.2: white space before the first field"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", 400, "5.2: folded"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\tc\r\n\r\n", 400, "5.2: folded"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n \r\n\r\n", 400, "5.2: folded"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n", 400, "RFC 9110, 5.5: NUL"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n", 400, "2.2: bare CR"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\r\n\r\n", 400, "2.2: bare CR"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\x7f\r\n\r\n", 400, "RFC 9110, 5.5: DEL"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: \u{e9}\r\n\r\n", 0, "RFC 9110, 5.5: obs-text"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n", 0, "5: an empty value"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\tc\r\n\r\n", 0, "RFC 9110, 5.5: a tab within"),
        // Line ends: 2.2
        ("GET / HTTP/1.1\nHost: a\r\n\r\n", 400, "2.2: bare LF"),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n", 400, "2.2: bare LF"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\n", 400, "2.2: bare LF"),
        ("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", 400, "2.2: bare CR"),
        ("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 0, "2.2: an empty line first"),
        ("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 0, "2.2: two of them"),
        ("\r\n\r\n\r\n", 400, "2.2: patience ends at the third"),
        ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "2.2: bare LF"),
        ("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "2.2: bare CR"),
        // Expect: RFC 9110, 10.1.1
        ("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\n\r\n", 0, "RFC 9110, 10.1.1"),
        ("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n", 417, "RFC 9110, 10.1.1"),
        ("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue, x\r\n\r\n", 417, "RFC 9110, 10.1.1"),
    ];
    for (head, expected, reason) in table {
        assert_eq!(status(head.as_bytes()), *expected, "{head:?}: {reason}");
    }
    assert_eq!(status(b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n"), 400, "3.2: invalid Host");
}

#[test]
fn invalid_input_is_rejected_early() {
    // (bytes so far, status, or 1 if incomplete, reason)
    let table: &[(&[u8], u16, &str)] = &[
        (b"", 1, "nothing yet"),
        (b"\r", 1, "maybe an empty line"),
        (b"G", 1, "maybe a method"),
        (b"GET / HTTP/1.1\r\n", 1, "maybe fields"),
        (b"\x16\x03\x01", 400, "a TLS greeting on a plain port"),
        (b" G", 400, "3: no white space first"),
        (b"GET /\r\n", 400, "HTTP/0.9: nothing else would follow"),
        (b"PRI * HTTP/2.0\r\n", 505, "RFC 9113, 3.4"),
        (b"GET / HTTP/1.1\r\nHost: a\n", 400, "2.2: bare LF"),
    ];
    for (bytes, expected, reason) in table {
        assert_eq!(status(bytes), *expected, "{bytes:?}: {reason}");
    }
}

#[test]
fn limits_hold_for_whole_and_unfinished_heads() {
    let limits = Limits { request_line: 20, head: 100, headers: 3, body: 0, chunk_extensions: 0 };
    let status = |head: &str| match parse(head.as_bytes(), &limits) {
        Ok(Parse::Complete(..)) => 0,
        Ok(Parse::Incomplete) => 1,
        Err(reject) => reject.status.code(),
    };
    let field = |length: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(length));
    // (head, status, reason), RFC 9110, 15.5.15 and RFC 6585, 5
    let table: &[(String, u16, &str)] = &[
        ("GET /345678 HTTP/1.1\r\nHost: a\r\n\r\n".into(), 0, "a line of 20"),
        ("GET /3456789 HTTP/1.1\r\nHost: a\r\n\r\n".into(), 414, "a line of 21"),
        ("GET /345678901234567".into(), 1, "20 so far"),
        ("GET /345678901234567\r".into(), 1, "20 so far, and its end begun"),
        ("GET /34567890123456789".into(), 414, "22 so far"),
        ("\r\n\r\nGET /345678 HTTP/1.1\r\nHost: a\r\n\r\n".into(), 0, "empty lines do not count"),
        (field(68) + "\r\n\r\n", 0, "a head of 100"),
        (field(69) + "\r\n\r\n", 431, "a head of 101"),
        (field(72), 1, "100 so far"),
        (field(73), 431, "101 so far"),
        ("GET / HTTP/1.1\r\nHost: a\r\nA:\r\nB:\r\n\r\n".into(), 0, "three fields"),
        ("GET / HTTP/1.1\r\nHost: a\r\nA:\r\nB:\r\nC:\r\n\r\n".into(), 431, "four fields"),
        ("GET / HTTP/1.1\r\nHost: a\r\nA:\r\nB:\r\nC:\r\n".into(), 431, "four fields so far"),
    ];
    for (head, expected, reason) in table {
        assert_eq!(status(head), *expected, "{head:?}: {reason}");
    }
    // The array of fields has a limit of its own.
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(200));
    let limits = Limits { headers: usize::MAX, ..Limits::default() };
    assert_eq!(parse(many.as_bytes(), &limits).unwrap_err().status.code(), 431);
}

#[test]
fn connections_stay_open_or_close() {
    // (version, Connection lines, persistent, reason), 9.3
    let table: &[(u8, &[&str], bool, &str)] = &[
        (1, &[], true, "9.3: the default"),
        (1, &["close"], false, "9.6"),
        (1, &["Close"], false, "RFC 9110, 7.6.1: case-insensitive"),
        (1, &["keep-alive"], true, "9.3"),
        (1, &["keep-alive, close"], false, "9.3: close wins"),
        (1, &["upgrade,\tclose"], false, "RFC 9110, 7.6.1: a list"),
        (1, &["keep-alive", "close"], false, "RFC 9110, 5.3: over two lines"),
        (1, &["closed"], true, "another option"),
        (0, &[], false, "9.3: the default"),
        (0, &["keep-alive"], true, "9.3"),
        (0, &["Keep-Alive"], true, "RFC 9110, 7.6.1: case-insensitive"),
        (0, &["close, keep-alive"], false, "9.3: close wins"),
    ];
    for (minor, lines, expected, reason) in table {
        let lines: String = lines.iter().map(|line| format!("Connection: {line}\r\n")).collect();
        let head = format!("GET / HTTP/1.{minor}\r\nHost: a\r\n{lines}\r\n");
        assert_eq!(request(&head).unwrap().keep_alive, *expected, "{head:?}: {reason}");
    }
}

#[test]
fn all_parts_are_parsed() {
    let head = "GET http://b:81/p?q HTTP/1.1\r\nHost: a\r\nIf-Match: 1\r\nIf-None-Match: 2\r\n\
                If-Modified-Since: 3\r\nIf-Unmodified-Since: 4\r\nIf-Range: 5\r\nRange: 6\r\n\
                Accept-Encoding: 7\r\nUser-Agent: 8\r\nReferer: 9\r\nX-Other: 10\r\n\
                Content-Length: 11\r\nExpect: 100-continue\r\nx-other:\t12 \r\n\r\n";
    let r = request(head).unwrap();
    assert_eq!((r.method, r.path, r.query), (Method::Get, "/p", Some("q")));
    assert_eq!((r.host, r.version, r.keep_alive), (Some("b:81"), Version::Http11, true));
    assert_eq!((r.body, r.expect_continue), (Body::Length(11), true));
    let fields = [
        r.if_match,
        r.if_none_match,
        r.if_modified_since,
        r.if_unmodified_since,
        r.if_range,
        r.range,
        r.accept_encoding,
        r.user_agent,
        r.referer,
    ];
    for (field, expected) in fields.into_iter().zip(b'1'..) {
        assert_eq!(field, Some(&[expected][..]));
    }
    assert_eq!(r.values("X-OTHER").collect::<Vec<_>>(), [b"10", b"12"]);
    assert_eq!(r.values("missing").next(), None);
    assert_eq!(r.line().concat(), "GET http://b:81/p?q HTTP/1.1");
}

#[test]
fn repeated_fields() {
    let r = request(
        "GET / HTTP/1.1\r\nHost: a\r\nRange: b\r\nRange: c\r\nIf-Range: d\r\n\
                     If-None-Match: e\r\nIf-None-Match: f\r\n\r\n",
    );
    let r = r.unwrap();
    assert_eq!(r.range, Some(&b""[..]), "RFC 9110, 5.3: two of one are none");
    assert_eq!(r.if_range, Some(&b"d"[..]));
    assert_eq!(r.if_none_match, Some(&b"e"[..]));
    assert_eq!(r.values("if-none-match").count(), 2, "RFC 9110, 5.3: a list over two lines");
}

#[test]
fn bodies_and_expectations() {
    // (method and version, field, body, expectation, reason)
    let table: &[(&str, &str, Body, bool, &str)] = &[
        ("1.1", "X: y", Body::None, false, "6.3: neither field"),
        ("1.1", "Content-Length: 0", Body::None, false, "6.3: nothing follows"),
        ("1.1", "Content-Length: 7", Body::Length(7), false, "6.3"),
        ("1.1", "Transfer-Encoding: chunked", Body::Chunked, false, "6.3"),
        ("1.1", "Expect: 100-continue", Body::None, false, "RFC 9110, 10.1.1: no body to wait for"),
        ("1.1", "Content-Length: 7\r\nExpect: 100-continue", Body::Length(7), true, "10.1.1"),
        ("1.0", "Content-Length: 7\r\nExpect: 100-continue", Body::Length(7), false, "10.1.1: 1.0"),
    ];
    for (version, field, body, expects, reason) in table {
        let head = format!("POST / HTTP/{version}\r\nHost: a\r\n{field}\r\n\r\n");
        let request = request(&head).unwrap();
        assert_eq!(
            (request.body, request.expect_continue),
            (*body, *expects),
            "{head:?}: {reason}"
        );
        assert_eq!(request.method, Method::Other("POST"));
    }
}

#[test]
fn pipelined_requests_follow_each_other() {
    let bytes = b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3";
    let (mut scan, mut at, mut requests) = (Scan::default(), 0, Vec::new());
    while let Ok(Parse::Complete(request, length)) = scan.parse(&bytes[at..], &Limits::default()) {
        requests.push(request.path);
        at += length;
    }
    assert_eq!(requests, ["/1", "/2"]);
    assert_eq!(&bytes[at..], b"GET /3");
}

/// Parses `fields` as those of an HTTP/2 request.
fn http2<'a>(
    parts: [&'a str; 3],
    fields: &[(&'a str, &'a str)],
    lines: &'a str,
    limits: &Limits,
) -> Result<Request<'a>, u16> {
    let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let request = Request::from_fields(parts, lines.as_bytes(), fields, limits);
    request.map_err(|reject| reject.status.code())
}

#[test]
fn decoded_fields_form_a_request() {
    let fields = [
        ("host", "h"),
        ("range", "bytes=0-1"),
        ("content-length", "7"),
        ("expect", "other"),
        ("accept-encoding", "br"),
        ("accept-encoding", "gzip"),
    ];
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let limits = Limits::default();
    let request = http2(["GET", "/a?b", "h"], &fields, &lines, &limits).unwrap();
    assert_eq!((request.path, request.query, request.host), ("/a", Some("b"), Some("h")));
    assert_eq!((request.body, request.expect_continue), (Body::None, false));
    assert_eq!((request.range, request.keep_alive), (Some(&b"bytes=0-1"[..]), true));
    assert_eq!(request.values("accept-encoding").collect::<Vec<_>>(), [&b"br"[..], b"gzip"]);
    assert_eq!(request.line().concat(), "GET /a?b HTTP/2.0");
}

#[test]
fn decoded_fields_are_limited_and_checked() {
    let limits = Limits { request_line: 30, headers: 2, ..Limits::default() };
    let long = format!("/{}", "a".repeat(30));
    let field = ("a", "b");
    // (method, target and authority; number of fields; status, reason)
    let table: [([&str; 3], usize, u16, &str); 7] = [
        (["GET", &long, "h"], 0, 414, "RFC 9112, 3"),
        (["GET", "/", "h"], 3, 431, "RFC 6585, 5"),
        (["CONNECT", "h:1", "h:1"], 0, 405, "RFC 9110, 9.3.6: not a proxy"),
        (["GET", "*", "h"], 0, 400, "RFC 9112, 3.2.4"),
        (["GET", "a", "h"], 0, 400, "RFC 9112, 3.2.1"),
        (["GET", "/", "u@h"], 0, 400, "RFC 9110, 4.2.4"),
        (["GET", "/", ""], 0, 400, "RFC 9110, 4.2.1"),
    ];
    for (parts, count, status, reason) in table {
        assert_eq!(
            http2(parts, &vec![field; count], "", &limits),
            Err(status),
            "{parts:?}: {reason}"
        );
    }
    assert!(http2(["OPTIONS", "*", "h"], &[field; 2], "", &limits).is_ok());
    // RFC 9113, 8.2.3: a client may divide one field.
    let cookies = [("cookie", "c=d"); 200];
    assert!(http2(["GET", "/", "h"], &[&[field][..], &cookies].concat(), "", &limits).is_ok());
    let more = [&[field; 2][..], &cookies].concat();
    assert_eq!(http2(["GET", "/", "h"], &more, "", &limits), Err(431));
}

/// RFC 9110, 7.4
#[test]
fn targets_that_require_tls() {
    for (target, is_https) in
        [("/", false), ("http://a/", false), ("https://a/", true), ("HTTPS://a", true)]
    {
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(request(&head).unwrap().has_https_target(), is_https, "{target}");
    }
}
