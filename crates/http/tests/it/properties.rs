//! Properties of all inputs, checked on random ones.

use phalanx_http::{
    Body, BodyParser, Limits, Parse, Ranged, Scan, Validators, evaluate, format_date, parse,
    parse_date, path, range,
};
use proptest::prelude::*;

/// Bytes that often resemble a request.
fn nearly_a_request() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"GET / HTTP/1.1\r\n".to_vec()),
        Just(b"Host: a\r\n".to_vec()),
        Just(b"Content-Length: 3\r\n".to_vec()),
        Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
        Just(b"Range: bytes=0-".to_vec()),
        Just(b"If-None-Match: \"a\", ".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\r\n\r\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b" ".to_vec()),
        Just(b":".to_vec()),
        prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

fn a_request() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        "X-[A-Za-z]{1,9}: [!-~]{0,20}",
        Just("Content-Length: 17".to_owned()),
        Just("Connection: close".to_owned()),
        Just("Accept-Encoding: gzip, br".to_owned()),
        "Range: bytes=[0-9]{1,3}-[0-9]{0,3}",
        "If-None-Match: \"[a-z]{1,4}\"",
    ];
    ("(\r\n){0,2}", "(GET|HEAD|OPTIONS|PUT)", "/[a-z/.]{0,9}([?][a-z=&]{0,9})?", 0..3)
        .prop_flat_map(move |(empty, method, target, minor)| {
            let fields = prop::collection::vec(field.clone(), 0..30);
            fields.prop_map(move |fields| {
                let fields: String = fields.iter().map(|line| format!("{line}\r\n")).collect();
                format!("{empty}{method} {target} HTTP/1.{minor}\r\nHost: a\r\n{fields}\r\n")
            })
        })
}

/// Splits the bytes into pieces of the given lengths, cyclically.
fn cut<'a>(bytes: &'a [u8], lengths: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = bytes;
    lengths.iter().cycle().map_while(move |length| {
        let (piece, remaining) = rest.split_at((*length).min(rest.len()));
        rest = remaining;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Bytes consumed and whether the body is complete, or the reason for rejecting it.
fn feed_all<'a>(
    body: Body,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Result<(usize, bool), &'static str> {
    let limits = Limits { body: 100, head: 30, ..Limits::default() };
    let mut parser = BodyParser::new(body, &limits).map_err(|reject| reject.reason)?;
    let mut consumed = 0;
    for piece in pieces {
        let fed = parser.feed(piece).map_err(|reject| reject.reason)?;
        consumed += fed;
        if fed < piece.len() {
            assert!(parser.is_done());
            break;
        }
    }
    Ok((consumed, parser.is_done()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn parsing_never_panics(bytes in nearly_a_request(), length: u64) {
        if let Ok(Parse::Complete(request, consumed)) = parse(&bytes, &Limits::default()) {
            prop_assert!(consumed <= bytes.len() && bytes[..consumed].ends_with(b"\r\n\r\n"));
            let validators = Validators { etag: "\"a\"", modified: 0 };
            evaluate(&request, &validators);
            if let Ranged::Partial { start, end } = range::resolve(&request, &validators, length) {
                prop_assert!(start < end && end <= length);
            }
            let _ = path::resolve(request.path.as_bytes(), &mut Vec::new());
        }
    }

    #[test]
    fn rejected_input_stays_rejected(bytes in nearly_a_request()) {
        let whole = parse(&bytes, &Limits::default());
        for end in 0..bytes.len() {
            match parse(&bytes[..end], &Limits::default()) {
                Ok(Parse::Incomplete) => {}
                Err(_) => prop_assert!(whole.is_err()),
                complete => prop_assert_eq!(&complete, &whole),
            }
        }
    }

    #[test]
    fn a_request_may_be_split_anywhere(head in a_request()) {
        let limits = Limits::default();
        let whole = parse(head.as_bytes(), &limits);
        let Ok(Parse::Complete(_, length)) = whole else { panic!("{whole:?}") };
        prop_assert_eq!(length, head.len());
        let mut scan = Scan::default();
        for end in 0..head.len() {
            let part = &head.as_bytes()[..end];
            prop_assert_eq!(parse(part, &limits), Ok(Parse::Incomplete));
            prop_assert_eq!(scan.parse(part, &limits), Ok(Parse::Incomplete));
        }
        prop_assert_eq!(scan.parse(head.as_bytes(), &limits), whole);
        prop_assert_eq!(scan, Scan::default());
    }

    #[test]
    fn scan_and_parse_agree(bytes in nearly_a_request(), lengths in prop::collection::vec(1usize..20, 1..5)) {
        let limits = Limits { request_line: 24, head: 60, headers: 2, body: 0, chunk_extensions: 0 };
        let (mut scan, mut end) = (Scan::default(), 0);
        for piece in cut(&bytes, &lengths) {
            end += piece.len();
            let found = scan.parse(&bytes[..end], &limits);
            prop_assert_eq!(&found, &parse(&bytes[..end], &limits));
            if found != Ok(Parse::Incomplete) {
                break;
            }
        }
    }

    #[test]
    fn a_body_may_be_split_anywhere(
        text in "([0-9a-fA-F]{1,2}|5\r\nhello\r\n|0\r\n|\r\n|\n|;[a-z]|X: y\r\n|Host:|[ -~]|\r){0,12}",
        lengths in prop::collection::vec(1usize..9, 1..5),
        known in prop::option::of(0u64..120),
    ) {
        let body = known.map_or(Body::Chunked, Body::Length);
        let whole = feed_all(body, std::iter::once(text.as_bytes()));
        prop_assert_eq!(feed_all(body, cut(text.as_bytes(), &lengths)), whole);
    }

    #[test]
    fn chunks_read_back(chunks in prop::collection::vec(1usize..9, 0..9), lengths in prop::collection::vec(1usize..9, 1..5)) {
        let mut bytes = Vec::new();
        for length in chunks {
            bytes.extend_from_slice(format!("{length:x}\r\n{}\r\n", "x".repeat(length)).as_bytes());
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        let length = bytes.len();
        bytes.extend_from_slice(b"GET /");
        prop_assert_eq!(feed_all(Body::Chunked, cut(&bytes, &lengths)), Ok((length, true)));
    }

    #[test]
    fn dates_read_back(second in 0u64..253_402_300_800) {
        prop_assert_eq!(parse_date(&format_date(second)), Some(second));
    }

    #[test]
    fn any_bytes_are_a_date_or_not(bytes in "[A-Z][a-z]{2},? [0-9a-zA-Z: -]{0,30}") {
        parse_date(bytes.as_bytes());
    }
}
