//! Bytes of a connection: heads and bodies, one after another.
//!
//! The first byte determines how the rest is split. Whether parsed whole or in pieces, the bytes must yield the
//! same requests with the same ends, and the same rejection: a server whose parsing depends on segmentation
//! enables request smuggling.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_http::{BodyParser, Limits, Parse, Reject, Reply, Scan, Version, client, parse};

fn limits() -> Limits {
    Limits { request_line: 200, head: 600, headers: 20, body: 500, chunk_extensions: 40 }
}

/// The parts of a request: the ends of its head and its body.
#[derive(Debug, PartialEq)]
struct Parsed {
    head: usize,
    body: usize,
}

/// Parses all bytes at once.
fn whole(bytes: &[u8]) -> (Vec<Parsed>, Result<(), Reject>) {
    let (mut parsed, mut at) = (Vec::new(), 0);
    loop {
        match parse(&bytes[at..], &limits()) {
            Err(reject) => return (parsed, Err(reject)),
            Ok(Parse::Incomplete) => return (parsed, Ok(())),
            Ok(Parse::Complete(request, length)) => {
                assert!(bytes[at..at + length].ends_with(b"\r\n\r\n"));
                assert!(request.path.starts_with('/') || request.is_asterisk());
                assert!(request.version == Version::Http10 || request.host.is_some());
                let _ = Reply::to(&request);
                at += length;
                let head = at;
                let mut parser = match BodyParser::new(request.body, &limits()) {
                    Ok(parser) => parser,
                    Err(reject) => return (parsed, Err(reject)),
                };
                match parser.feed(&bytes[at..]) {
                    Err(reject) => return (parsed, Err(reject)),
                    Ok(taken) => at += taken,
                }
                if !parser.is_done() {
                    assert_eq!(at, bytes.len());
                    return (parsed, Ok(()));
                }
                parsed.push(Parsed { head, body: at });
            }
        }
    }
}

/// Parses the bytes as received from a socket, `step` more each time.
fn in_pieces(bytes: &[u8], step: usize) -> (Vec<Parsed>, Result<(), Reject>) {
    let (mut parsed, mut at, mut have) = (Vec::new(), 0, 0);
    let (mut scan, mut body): (Scan, Option<(usize, BodyParser)>) = (Scan::default(), None);
    loop {
        if let Some((head, parser)) = &mut body {
            match parser.feed(&bytes[at..have]) {
                Err(reject) => return (parsed, Err(reject)),
                Ok(taken) => at += taken,
            }
            if parser.is_done() {
                parsed.push(Parsed { head: *head, body: at });
                body = None;
                continue;
            }
        } else {
            match scan.parse(&bytes[at..have], &limits()) {
                Err(reject) => return (parsed, Err(reject)),
                Ok(Parse::Incomplete) => {}
                Ok(Parse::Complete(request, length)) => {
                    at += length;
                    match BodyParser::new(request.body, &limits()) {
                        Err(reject) => return (parsed, Err(reject)),
                        Ok(parser) => body = Some((at, parser)),
                    }
                    continue;
                }
            }
        }
        if have == bytes.len() {
            return (parsed, Ok(()));
        }
        have = (have + step).min(bytes.len());
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&step, bytes)) = data.split_first() else { return };
    let (parsed, end) = whole(bytes);
    let (parsed_in_pieces, end_in_pieces) = in_pieces(bytes, usize::from(step % 40) + 1);
    assert_eq!(parsed, parsed_in_pieces);
    // A piece may show one error before another, but an error remains an error.
    assert_eq!(end.is_err(), end_in_pieces.is_err(), "{end:?} {end_in_pieces:?}");

    // The client's parser must accept arbitrary bytes as well.
    if let Ok(Some(response)) = client::parse_response(bytes, false) {
        assert!(response.head <= bytes.len());
    }
});
