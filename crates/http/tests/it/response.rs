//! Responses as sent, parsed by the client side.

use phalanx_http::client::{Content, parse_response, write_get};
use phalanx_http::{
    ALLOW, Body, BodyParser, ContentType, DateLine, Entity, FieldBlock, Limits, Parse, Reply,
    ResponseBuffer, Status, Validators, Version, error_fields, parse,
};

const OPEN: Reply = Reply { version: Version::Http11, keep_alive: true, head_only: false };
const HEAD: Reply = Reply { head_only: true, ..OPEN };

fn text(write: impl FnOnce(&mut ResponseBuffer, &DateLine)) -> String {
    let mut out = ResponseBuffer::lines(Vec::new());
    write(&mut out, &DateLine::new(784_111_777));
    String::from_utf8(out.take()).unwrap()
}

/// Appends a response with the built-in page.
fn error_page(out: &mut ResponseBuffer, status: Status, date: &DateLine, reply: Reply) {
    out.head(status, date, reply).fields(error_fields(status, None).all()).page();
}

#[test]
fn every_page_has_correct_framing() {
    for &status in Status::ALL {
        for reply in [OPEN, HEAD, OPEN.closing(), Reply { version: Version::Http10, ..OPEN }] {
            let page = text(|out, date| error_page(out, status, date, reply));
            let response = parse_response(page.as_bytes(), reply.head_only).unwrap().unwrap();
            assert_eq!(response.status, status.code());
            let body = page.len() - response.head;
            let announced = page.contains("Content-Length: ");
            assert_eq!(announced, status.has_content(), "RFC 9110, 8.6: {status}");
            match response.content {
                Content::Framed(Body::None) => assert_eq!(body, 0),
                Content::Framed(Body::Length(length)) => assert_eq!(body as u64, length),
                other => panic!("{other:?}"),
            }
            assert_eq!(page.contains("Connection: close\r\n"), !reply.keep_alive);
            assert_eq!(
                page.contains("Connection: keep-alive\r\n"),
                reply.version == Version::Http10
            );
            assert_eq!(page.contains("Allow: GET, HEAD"), status == Status::MethodNotAllowed);
            assert!(
                page.contains("\r\nServer: phalanx\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n")
            );
        }
    }
}

#[test]
fn a_head_request_gets_the_same_head() {
    // RFC 9110, 9.3.2
    let get = text(|out, date| error_page(out, Status::NotFound, date, OPEN));
    let head = text(|out, date| error_page(out, Status::NotFound, date, HEAD));
    assert_eq!(get.split_once("\r\n\r\n").unwrap().0, head.strip_suffix("\r\n\r\n").unwrap());
}

#[test]
fn special_responses() {
    let unsatisfiable = |whole| {
        let status = Status::RangeNotSatisfiable;
        let fields = error_fields(status, Some(whole));
        text(|out, date| out.head(status, date, OPEN).fields(fields.all()).page())
    };
    let page = unsatisfiable(2048);
    assert!(page.starts_with("HTTP/1.1 416 Range Not Satisfiable\r\n"));
    assert!(page.contains("\r\nContent-Range: bytes */2048\r\n"), "RFC 9110, 15.5.17");
    let page = unsatisfiable(u64::MAX);
    assert!(page.contains("\r\nContent-Range: bytes */18446744073709551615\r\n"));
    let page = text(|out, date| {
        out.head(Status::Found, date, OPEN).field("Location", b"/a\r\nX: y").page();
    });
    assert!(page.contains("\r\nLocation: /a  X: y\r\n"), "no second line can be smuggled in");
    let page = text(|out, date| {
        out.head(Status::NoContent, date, OPEN).field("Allow", ALLOW.as_bytes()).page();
    });
    assert!(page.starts_with("HTTP/1.1 204 No Content\r\n"));
    assert!(page.ends_with("\r\nAllow: GET, HEAD, OPTIONS\r\n\r\n"));
}

#[test]
fn files() {
    let validators = Validators { etag: "\"a\"", modified: 0 };
    let entity = Entity::new(ContentType::HTML, &validators, 2048, &[("Vary", "Accept-Encoding")]);
    let full = text(|out, date| out.head(Status::Ok, date, OPEN).entity(&entity).finish());
    assert!(full.contains("\r\nContent-Length: 2048\r\n"));
    let part = |start, end, whole| {
        text(|out, date| {
            let head = out.head(Status::PartialContent, date, OPEN).fields(entity.partial());
            head.part(start, end, whole).finish();
        })
    };
    let some = part(1948, 2048, 2048);
    assert!(some.contains("\r\nContent-Range: bytes 1948-2047/2048\r\nContent-Length: 100\r\n"));
    assert!(some.contains("\r\nContent-Type: text/html; charset=utf-8\r\n"));
    let last = part(u64::MAX - 1, u64::MAX, u64::MAX);
    assert!(last.contains(&format!("bytes {0}-{0}/{1}\r\n", u64::MAX - 1, u64::MAX)));
    let same = text(|out, date| {
        let head = out.head(Status::NotModified, date, OPEN).fields(entity.unchanged());
        head.length(9).finish();
    });
    // RFC 9110, 15.4.5
    assert!(same.contains("\r\nETag: \"a\"\r\n") && same.contains("\r\nVary: Accept-Encoding\r\n"));
    assert!(!same.contains("Content-"), "{same}");
}

#[test]
fn no_allocation_with_sufficient_capacity() {
    let memory = Vec::with_capacity(2048);
    let (start, date) = (memory.as_ptr(), DateLine::new(0));
    let mut out = ResponseBuffer::lines(memory);
    error_page(&mut out, Status::NotFound, &date, OPEN);
    assert_eq!(out.bytes().as_ptr(), start);
}

#[test]
fn status_and_content_are_known() {
    let mut out = ResponseBuffer::lines(Vec::new());
    let date = DateLine::new(0);
    // (status, reply, content)
    for (status, reply, sent) in [
        (Status::Ok, OPEN, true),
        (Status::Ok, HEAD, false),
        (Status::NotModified, OPEN, false),
        (Status::NotFound, OPEN, true),
    ] {
        out.head(status, &date, reply).whole("text/plain", &["one", "two"]);
        let content = if sent { 6 } else { 0 };
        assert_eq!((out.status(), out.content_bytes()), (status.code(), content));
        assert_eq!(out.declared(), Some(content));
        out.count(1000);
        assert_eq!(out.content_bytes(), content + 1000, "sent from elsewhere");
        out.begin();
        assert_eq!((out.status(), out.content_bytes()), (0, 0), "no response yet");
    }
    out.head(Status::Ok, &date, OPEN).finish();
    assert_eq!(out.declared(), None, "no length is declared");
}

/// Decodes a field block.
fn decode(block: &[u8]) -> Vec<(String, String)> {
    let text = |text: Vec<u8>| String::from_utf8(text).unwrap();
    let fields = phalanx_http2::decode_block(block).unwrap();
    fields.into_iter().map(|(name, value)| (text(name), text(value))).collect()
}

#[test]
fn a_block_has_the_fields_of_the_lines() {
    let mut prepared = FieldBlock::default();
    prepared.push("Cache-Control", b"no-cache");
    let long = "x".repeat(1000);
    let write = |mut out: ResponseBuffer| {
        let head = out.head(Status::Ok, &DateLine::new(784_111_777), OPEN.closing());
        let head =
            head.fields(prepared.all()).field("Location", b"a\nb").field("X-Long", long.as_bytes());
        head.whole("text/plain", &["content"]);
        out
    };
    let mut block = write(ResponseBuffer::block(Vec::new()));
    let head = block.head_length();
    let block = block.take();
    let mut lines = format!("HTTP/1.1 {}\r\n", Status::Ok);
    let fields = decode(&block[..head]);
    assert_eq!(fields[0], (":status".to_owned(), "200".to_owned()));
    for (name, value) in &fields[1..] {
        assert_eq!(*name, name.to_ascii_lowercase(), "RFC 9113, 8.2.1");
        lines.push_str(&format!("{name}: {value}\r\n"));
    }
    assert_eq!(&block[head..], b"content");
    let expected = String::from_utf8(write(ResponseBuffer::lines(Vec::new())).take()).unwrap();
    let expected = expected.strip_suffix("\r\ncontent").unwrap();
    let expected = expected.replace("Connection: close\r\n", "").to_lowercase();
    assert_eq!(lines.to_lowercase(), expected, "RFC 9113, 8.2.2: without Connection");
}

#[test]
fn the_server_parses_the_client_requests() {
    for keep_alive in [true, false] {
        let mut out = Vec::new();
        write_get(&mut out, "localhost:80", "/a?b", keep_alive);
        let Ok(Parse::Complete(request, length)) = parse(&out, &Limits::default()) else {
            panic!()
        };
        assert_eq!((request.host, request.path), (Some("localhost:80"), "/a"));
        assert_eq!((request.keep_alive, length), (keep_alive, out.len()));
    }
}

#[test]
fn responses() {
    let framed = Content::Framed;
    // (head, (content, persistent) or none if invalid, reason), RFC 9112
    type Found = Option<(Content, bool)>;
    let table: &[(&str, Found, &str)] = &[
        ("HTTP/1.1 200 OK\r\nContent-Length: 5", Some((framed(Body::Length(5)), true)), "6.3"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0", Some((framed(Body::None), true)), "6.3"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
            Some((framed(Body::Chunked), true)),
            "6.3",
        ),
        ("HTTP/1.1 200 OK\r\nX: y", Some((Content::UntilClose, false)), "6.3"),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5", Some((framed(Body::None), true)), "6.3"),
        ("HTTP/1.1 204 No Content\r\nX: y", Some((framed(Body::None), true)), "6.3"),
        ("HTTP/1.1 100 Continue\r\nX: y", Some((framed(Body::None), true)), "6.3"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close",
            Some((framed(Body::Length(5)), false)),
            "9.6",
        ),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5", Some((framed(Body::Length(5)), false)), "9.3"),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: Keep-Alive",
            Some((framed(Body::Length(5)), true)),
            "9.3",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: x", None, "6.3"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", None, "6.3"),
        ("HTTP/2.0 200 OK\r\nContent-Length: 5", None, "2.3"),
        ("SSH-2.0-OpenSSH\r\nX: y", None, "another protocol"),
    ];
    for (head, expected, reason) in table {
        let bytes = format!("{head}\r\n\r\n");
        let found = parse_response(bytes.as_bytes(), false);
        let found = found.ok().map(|response| response.expect("whole"));
        let found = found.map(|response| (response.content, response.keep_alive));
        assert_eq!(found, *expected, "{head:?}: {reason}");
    }
    assert_eq!(parse_response(b"HTTP/1.1 200 OK\r\nContent-Le", false), Ok(None));
    let head =
        parse_response(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true).unwrap().unwrap();
    assert_eq!(head.content, Content::Framed(Body::None), "6.3: after HEAD");
}

#[test]
fn a_boundless_parser_reads_responses() {
    let limits = Limits { body: u64::MAX, ..Limits::default() };
    let mut parser = BodyParser::new(Body::Length(1 << 40), &limits).unwrap();
    assert_eq!(parser.feed(&[0; 4096]), Ok(4096));
}
