//! Frames and field blocks that cost the server more than the client.

use std::time::Duration;

use crate::peer::*;
use phalanx_http2::{Excess, Limits};

const ENHANCE_YOUR_CALM: Option<u32> = Some(11);

#[test]
fn floods_end_the_connection() {
    let reset = |n: u32| {
        [frame(HEADERS, WHOLE, 2 * n + 1, GET), frame(RST_STREAM, 0, 2 * n + 1, &[0; 4])].concat()
    };
    let invalid = |n: u32| frame(HEADERS, WHOLE, 2 * n + 1, b"\x82");
    let block = |n: u32| match n {
        0 => frame(HEADERS, 1, 1, &[0; 16_384]),
        _ => frame(CONTINUATION, 0, 1, &[0; 16_384]),
    };
    let pieces = |n: u32| match n {
        0 => frame(HEADERS, END_HEADERS, 1, POST),
        _ => frame(DATA, 0, 1, b"x"),
    };
    let repeated = |bytes: Vec<u8>| move |_: u32| bytes.clone();
    type Case = (Box<dyn Fn(u32) -> Vec<u8>>, u32, Excess);
    // (frames, how many are permitted, reason)
    let table: [Case; 10] = [
        (Box::new(reset), 999, Excess::Resets),
        (Box::new(invalid), 1000, Excess::ServerResets),
        (Box::new(repeated(frame(PING, 0, 0, &[0; 8]))), 999, Excess::ControlFrames),
        (Box::new(repeated(frame(PING, ACK, 0, &[0; 8]))), 999, Excess::ControlFrames),
        (Box::new(repeated(frame(SETTINGS, 0, 0, &[]))), 999, Excess::ControlFrames),
        (Box::new(repeated(frame(PRIORITY, 0, 1, &[0; 5]))), 999, Excess::ControlFrames),
        (Box::new(repeated(window(0, 1))), 1000, Excess::IdleFrames),
        (Box::new(repeated(frame(99, 0, 0, &[]))), 1000, Excess::IdleFrames),
        (Box::new(pieces), 1001, Excess::IdleFrames),
        (Box::new(block), 8, Excess::FieldBlock),
    ];
    for (frames, permitted, excess) in table {
        let mut server = Server::new(LIMITS);
        for n in 0..permitted {
            server.feed(&frames(n));
            assert_eq!(server.connection.excess(), None, "{n}");
        }
        server.feed(&frames(permitted));
        assert_eq!(server.connection.excess(), Some(excess));
        assert_eq!(server.error(), ENHANCE_YOUR_CALM, "{excess:?}");
    }
    // The same frames are permitted if they arrive over a longer time.
    let mut server = Server::new(LIMITS);
    for n in 0..3000 {
        server.now = Duration::from_millis(20 * u64::from(n));
        server.feed(&reset(n));
    }
    assert_eq!(server.connection.excess(), None);
}

/// A few bytes that refer to a long name are decoded to that name, again and again.
#[test]
fn a_block_of_references_ends_the_connection() {
    let name = [&b"\x40\x7f\xa1\x1e"[..], &[b'n'; 4000], b"\0"].concat();
    for (references, excess) in [(64, None), (200, Some(Excess::FieldBlock))] {
        for reference in [&b"\x7e\0"[..], b"\x0f\x2f\0", b"\xbe"] {
            let block = [GET, &name, &reference.repeat(references)].concat();
            let mut server = Server::new(LIMITS);
            let requests = server.feed(&frame(HEADERS, WHOLE, 1, &block));
            assert_eq!(server.connection.excess(), excess, "{reference:x?}");
            match excess {
                None => assert!(requests[0].head.is_large()),
                Some(_) => assert_eq!(server.error(), ENHANCE_YOUR_CALM),
            }
            // In a trailer section, where no field is kept.
            let mut server = Server::new(LIMITS);
            server.feed(&frame(HEADERS, END_HEADERS, 1, POST));
            let block = [&name, &reference.repeat(references)[..]].concat();
            server.feed(&frame(HEADERS, WHOLE, 1, &block));
            assert_eq!(server.connection.excess(), excess, "{reference:x?}");
        }
    }
}

/// The limit that the server announces holds, however large it is.
#[test]
fn a_head_within_a_large_limit_is_accepted() {
    let limits = Limits { head: 1 << 20, ..LIMITS };
    // 160 KiB in literal fields, which take several frames, and 800 KiB in references to one field.
    let literal = [&b"\x00\x01a\x7f\xfe\x7e"[..], &[b'v'; 16_381]].concat();
    let indexed = [&b"\x40\x01a\x7f\xa1\x1e"[..], &[b'v'; 4000]].concat();
    let references = [&indexed[..], &b"\xbe".repeat(200)].concat();
    for fields in [literal.repeat(10), references] {
        let block = [GET, &fields].concat();
        let mut server = Server::new(limits);
        let mut pieces = block.chunks(16_384).peekable();
        let mut kind = HEADERS;
        let mut requests = Vec::new();
        while let Some(piece) = pieces.next() {
            let flags = END_STREAM | if pieces.peek().is_none() { END_HEADERS } else { 0 };
            requests.extend(server.feed(&frame(kind, flags, 1, piece)));
            kind = CONTINUATION;
        }
        assert_eq!(server.connection.excess(), None);
        assert!(!requests[0].head.is_large() && requests[0].head.is_valid());
    }
}
