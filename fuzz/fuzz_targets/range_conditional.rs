//! Arbitrary values of conditional fields: a range is within the file, and the precedence holds.
//!
//! The input is a length (8 bytes), then lines. The first byte of a line selects its field.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_http::{
    DateLine, Entity, Limits, Method, Outcome, Parse, Ranged, Reply, ResponseBuffer, Status,
    Validators, content_type, evaluate, format_date, parse, parse_date, range,
};

const FIELDS: [&str; 8] = [
    "If-Match",
    "If-None-Match",
    "If-Modified-Since",
    "If-Unmodified-Since",
    "If-Range",
    "Range",
    "Range",
    "If-Range",
];

fuzz_target!(|data: &[u8]| {
    let Some((length, lines)) = data.split_first_chunk::<8>() else { return };
    let length = u64::from_le_bytes(*length);
    let mut head = match length % 3 {
        0 => b"HEAD / HTTP/1.1\r\nHost: a\r\n".to_vec(),
        _ => b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec(),
    };
    for line in lines.split(|&byte| byte == b'\n') {
        let Some((&field, value)) = line.split_first() else { continue };
        head.extend_from_slice(FIELDS[usize::from(field % 8)].as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    let Ok(Parse::Complete(request, _)) = parse(&head, &Limits::default()) else { return };

    for etag in ["\"a\"", "W/\"a\"", ""] {
        let validators = Validators { etag, modified: 784_111_777 };
        let outcome = evaluate(&request, &validators);
        let conditions = [
            request.if_match,
            request.if_unmodified_since,
            request.if_none_match,
            request.if_modified_since,
        ];
        match outcome {
            Outcome::Proceed => {}
            Outcome::PreconditionFailed => assert!(conditions[0].or(conditions[1]).is_some()),
            Outcome::NotModified => assert!(conditions[2].or(conditions[3]).is_some()),
        }
        if request.if_none_match == Some(b"*") {
            assert_ne!(outcome, Outcome::Proceed);
        }
        let ranged = range::resolve(&request, &validators, length);
        if request.method == Method::Head || request.range.is_none() {
            assert_eq!(ranged, Ranged::Full);
        }
        if let Ranged::Partial { start, end } = ranged {
            assert!(start < end && end <= length);
            let entity = Entity::new(content_type(b"a.txt"), &validators, length, &[]);
            let mut out = ResponseBuffer::lines(Vec::new());
            out.head(Status::PartialContent, &DateLine::new(length), Reply::to(&request))
                .fields(entity.partial())
                .part(start, end, length)
                .finish();
            let out = out.take();
            assert!(out.is_ascii() && out.ends_with(b"\r\n\r\n"));
        }
    }
    assert!(parse_date(&format_date(length)).is_some());
});
