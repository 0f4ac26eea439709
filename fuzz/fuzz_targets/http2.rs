//! Input of an HTTP/2 client behind its preface.
//!
//! However the input is split, it yields the same requests and the same output. Each request is answered, and
//! the output stays bounded.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use phalanx_http2::{Connection, Limits, PREFACE, encoder};

const LIMITS: Limits = Limits { streams: 4, head: 512, body: 1000 };

fn serve(raw: &[u8], piece: usize) -> (Vec<String>, Vec<u8>) {
    let mut connection = Connection::new(LIMITS);
    let (mut input, mut seen) = (PREFACE.to_vec(), Vec::new());
    for piece in raw.chunks(piece) {
        input.extend_from_slice(piece);
        let mut taken = 0;
        while let Some(request) = connection.next_request(&input, &mut taken, Duration::ZERO) {
            assert!(request.head.lines().len() <= LIMITS.head);
            assert_eq!(
                request.head.fields().map(|(n, v)| n.len() + v.len() + 4).sum::<usize>(),
                request.head.lines().len()
            );
            seen.push(format!("{request:?}"));
            if !request.has_body {
                let head = |block: &mut Vec<u8>| {
                    let fields = request.head.fields();
                    fields.for_each(|(name, value)| encoder::field(block, name, value));
                };
                let stream = request.stream;
                connection.respond(stream, false, head).expect("the stream is open");
                let content = [b'x'; 600];
                let sent = connection.send(stream, &content, true).expect("the stream is open");
                assert!(sent <= content.len());
            }
            connection.recycle(request.head);
        }
        input.drain(..taken);
        assert!(input.len() < 9 + 16_384 || connection.has_ended());
    }
    assert!(connection.output_len() <= 70_000 + 100 * raw.len());
    (seen, connection.take_output(Vec::new()))
}

fuzz_target!(|data: &[u8]| {
    let Some((&first, bytes)) = data.split_first() else { return };
    let whole = serve(bytes, bytes.len().max(1));
    assert_eq!(serve(bytes, usize::from(first).max(1)), whole);
});
