//! A connection at the level of frames, by section of RFC 9113.

use std::task::Poll;

use crate::peer::*;
use phalanx_http2::{Body, Closed, Code, Limits, PREFACE, encoder};

const PROTOCOL_ERROR: Option<u32> = Some(1);
const FLOW_CONTROL_ERROR: Option<u32> = Some(3);
const STREAM_CLOSED: Option<u32> = Some(5);
const FRAME_SIZE_ERROR: Option<u32> = Some(6);
const COMPRESSION_ERROR: Option<u32> = Some(9);

fn respond(server: &mut Server, stream: u32, content: &[u8]) -> usize {
    server.connection.respond(stream, false, |block| encoder::status(block, 200)).unwrap();
    server.connection.send(stream, content, true).unwrap()
}

/// §3.4
#[test]
fn the_preface_is_required() {
    for (bytes, error) in [
        (&b"PRI * HTTP/2.0\r\n\r\nSX"[..], PROTOCOL_ERROR),
        (b"GET / HTTP/1.1\r\n", PROTOCOL_ERROR),
        (&PREFACE[..20], None),
    ] {
        let mut server = Server::new_quiet(LIMITS);
        server.feed(bytes);
        assert_eq!(server.error(), error);
    }
    let mut server = Server::new_quiet(LIMITS);
    server.feed(&[PREFACE, &frame(PING, 0, 0, &[0; 8])[..]].concat());
    assert_eq!(server.error(), PROTOCOL_ERROR, "SETTINGS must be first");
}

/// Frames that end a connection on which stream 1 is open, 3 is half-closed, 5 has ended, and 7 was skipped
/// before 9.
#[test]
fn connection_errors() {
    let table: [(Vec<u8>, Option<u32>, &str); 37] = [
        (frame(DATA, 0, 0, b"a"), PROTOCOL_ERROR, "6.1"),
        (frame(DATA, 8, 1, b"\x01"), PROTOCOL_ERROR, "6.1: padding"),
        (frame(DATA, 0, 11, b"a"), PROTOCOL_ERROR, "5.1: idle"),
        (frame(DATA, 0, 2, b"a"), PROTOCOL_ERROR, "5.1.1: even"),
        (frame(HEADERS, WHOLE, 0, GET), PROTOCOL_ERROR, "6.2"),
        (frame(HEADERS, WHOLE, 2, GET), PROTOCOL_ERROR, "5.1.1: even"),
        (frame(HEADERS, WHOLE, 7, GET), PROTOCOL_ERROR, "5.1.1: smaller than the last"),
        (frame(HEADERS, WHOLE, 5, GET), STREAM_CLOSED, "5.1: closed"),
        (frame(HEADERS, WHOLE | 8, 11, b"\x07\x82\x86\x84"), PROTOCOL_ERROR, "6.2: padding"),
        (frame(HEADERS, WHOLE | 0x20, 11, b"\0\0\0"), FRAME_SIZE_ERROR, "6.2"),
        (frame(HEADERS, WHOLE, 11, b"\xff"), COMPRESSION_ERROR, "4.3"),
        (frame(HEADERS, WHOLE, 1, b"\xbe"), COMPRESSION_ERROR, "4.3: in trailers"),
        (frame(PRIORITY, 0, 0, &[0; 5]), PROTOCOL_ERROR, "6.3"),
        (frame(RST_STREAM, 0, 0, &[0; 4]), PROTOCOL_ERROR, "6.4"),
        (frame(RST_STREAM, 0, 11, &[0; 4]), PROTOCOL_ERROR, "6.4: idle"),
        (frame(RST_STREAM, 0, 1, &[0; 3]), FRAME_SIZE_ERROR, "6.4"),
        (frame(SETTINGS, 0, 1, &[]), PROTOCOL_ERROR, "6.5"),
        (frame(SETTINGS, ACK, 0, &[0; 6]), FRAME_SIZE_ERROR, "6.5"),
        (frame(SETTINGS, 0, 0, &[0; 5]), FRAME_SIZE_ERROR, "6.5"),
        (frame(SETTINGS, 0, 0, b"\0\x02\0\0\0\x02"), PROTOCOL_ERROR, "6.5.2"),
        (frame(SETTINGS, 0, 0, b"\0\x04\x80\0\0\0"), FLOW_CONTROL_ERROR, "6.5.2"),
        (frame(SETTINGS, 0, 0, b"\0\x05\0\0\x3f\xff"), PROTOCOL_ERROR, "6.5.2"),
        (frame(PUSH_PROMISE, END_HEADERS, 1, &[0; 4]), PROTOCOL_ERROR, "8.4"),
        (frame(PING, 0, 1, &[0; 8]), PROTOCOL_ERROR, "6.7"),
        (frame(PING, 0, 0, &[0; 7]), FRAME_SIZE_ERROR, "6.7"),
        (frame(GOAWAY, 0, 1, &[0; 8]), PROTOCOL_ERROR, "6.8"),
        (frame(GOAWAY, 0, 0, &[0; 7]), FRAME_SIZE_ERROR, "6.8"),
        (frame(WINDOW_UPDATE, 0, 1, &[0; 3]), FRAME_SIZE_ERROR, "6.9"),
        (window(0, 0), PROTOCOL_ERROR, "6.9"),
        (window(11, 1), PROTOCOL_ERROR, "5.1: idle"),
        (window(0, i32::MAX as u32), FLOW_CONTROL_ERROR, "6.9.1"),
        (frame(CONTINUATION, END_HEADERS, 1, &[]), PROTOCOL_ERROR, "6.10"),
        (
            [frame(HEADERS, 0, 11, GET), frame(CONTINUATION, 4, 13, &[])].concat(),
            PROTOCOL_ERROR,
            "6.10: other stream",
        ),
        (
            [frame(HEADERS, 0, 11, GET), frame(PING, 0, 0, &[0; 8])].concat(),
            PROTOCOL_ERROR,
            "6.10: interrupted",
        ),
        (
            [frame(HEADERS, 0, 11, GET), frame(99, 0, 0, &[])].concat(),
            PROTOCOL_ERROR,
            "5.5: interrupted",
        ),
        (frame(DATA, 0, 1, &[0; 16_385])[..9].to_vec(), FRAME_SIZE_ERROR, "4.2: at its header"),
        (frame(SETTINGS, 0, 0, b"\0\x04\x7f\xff\xff\xff"), None, "6.9.2: within the limits"),
    ];
    for (bytes, error, reason) in table {
        let mut server = Server::new(LIMITS);
        let open = [
            frame(HEADERS, END_HEADERS, 1, POST),
            frame(HEADERS, WHOLE, 3, GET),
            frame(HEADERS, WHOLE, 5, GET),
            frame(HEADERS, WHOLE, 9, GET),
        ];
        assert_eq!(server.feed(&open.concat()).len(), 4);
        respond(&mut server, 5, b"");
        server.output();
        assert!(server.feed(&bytes).is_empty());
        assert_eq!(server.error(), error, "{reason}");
        assert_eq!(server.connection.has_ended(), error.is_some());
        if error.is_some() {
            assert_eq!(server.connection.send(3, b"a", true), Err(Closed));
            assert!(server.feed(&frame(HEADERS, WHOLE, 13, GET)).is_empty(), "input is ignored");
            assert_eq!(server.output(), []);
        }
    }
}

/// Frames that reset a stream, on the same connection.
#[test]
fn stream_errors() {
    let long = [POST, b"\x0f\x0d\x011"].concat();
    let table: [(Vec<u8>, u32, Option<u32>, &str); 15] = [
        (frame(DATA, 0, 3, b"a"), 3, STREAM_CLOSED, "5.1: half-closed"),
        (frame(HEADERS, WHOLE, 3, GET), 3, STREAM_CLOSED, "5.1: half-closed"),
        (frame(DATA, 0, 5, b"a"), 5, STREAM_CLOSED, "5.1: closed"),
        (frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 0]), 1, PROTOCOL_ERROR, "5.3.1"),
        (frame(PRIORITY, 0, 1, &[0; 4]), 1, FRAME_SIZE_ERROR, "6.3"),
        (
            frame(HEADERS, WHOLE | 0x20, 11, &[b"\0\0\0\x0b\0", GET].concat()),
            11,
            PROTOCOL_ERROR,
            "5.3.1",
        ),
        (window(1, 0), 1, PROTOCOL_ERROR, "6.9"),
        (window(1, i32::MAX as u32), 1, FLOW_CONTROL_ERROR, "6.9.1"),
        (
            frame(HEADERS, END_HEADERS, 1, b""),
            1,
            PROTOCOL_ERROR,
            "8.1: trailers without END_STREAM",
        ),
        (
            frame(HEADERS, WHOLE, 1, b"\x84"),
            1,
            PROTOCOL_ERROR,
            "8.1: a pseudo-header field in trailers",
        ),
        (
            frame(HEADERS, WHOLE, 1, b"\0\x01A\x01a"),
            1,
            PROTOCOL_ERROR,
            "8.2: upper case in trailers",
        ),
        (frame(HEADERS, WHOLE, 11, b"\x82\x86\x84"), 11, PROTOCOL_ERROR, "8.3.1: no authority"),
        (frame(HEADERS, WHOLE, 11, &long), 11, PROTOCOL_ERROR, "8.1.1: no content"),
        (
            [frame(HEADERS, 4, 11, &long), frame(DATA, 1, 11, b"ab")].concat(),
            11,
            PROTOCOL_ERROR,
            "8.1.1",
        ),
        (
            [frame(HEADERS, 4, 11, &long), frame(DATA, 0, 11, b""), frame(HEADERS, 5, 11, b"")]
                .concat(),
            11,
            PROTOCOL_ERROR,
            "8.1.1: trailers",
        ),
    ];
    for (bytes, stream, error, reason) in table {
        let mut server = Server::new(LIMITS);
        let open = [
            frame(HEADERS, END_HEADERS, 1, POST),
            frame(HEADERS, WHOLE, 3, GET),
            frame(HEADERS, WHOLE, 5, GET),
        ];
        assert_eq!(server.feed(&open.concat()).len(), 3);
        respond(&mut server, 5, b"");
        server.output();
        server.feed(&bytes);
        assert_eq!(server.reset(stream), error, "{reason}");
        assert_eq!(server.body(stream), Poll::Ready(Err(Closed)));
        // Frames that the client sent before it knew of the reset are ignored.
        server.feed(&[frame(DATA, 1, stream, b"a"), window(stream, 1)].concat());
        assert_eq!(server.output(), []);
        assert_eq!(
            server.feed(&frame(HEADERS, WHOLE, 99, GET)).len(),
            1,
            "the connection continues"
        );
    }
}

/// §5.1.2
#[test]
fn concurrent_streams_are_limited() {
    let mut server = Server::new(Limits { streams: 2, ..LIMITS });
    let open = |n: u32| frame(HEADERS, WHOLE, n, GET);
    assert_eq!(server.feed(&[open(1), open(3), open(5)].concat()).len(), 2);
    assert_eq!(server.reset(5), Some(7), "REFUSED_STREAM");
    respond(&mut server, 1, b"a");
    assert_eq!(server.feed(&open(7)).len(), 1);
}

/// §6.9
#[test]
fn content_stays_within_the_windows() {
    let mut server = Server::new(LIMITS);
    // SETTINGS_INITIAL_WINDOW_SIZE: 10
    server.feed(&frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\x0a"));
    server.feed(&frame(HEADERS, WHOLE, 1, GET));
    assert_eq!(respond(&mut server, 1, b"0123456789abcdef"), 10);
    assert_eq!(server.room(1), Poll::Pending);
    server.feed(&window(1, 2));
    assert_eq!(server.room(1), Poll::Ready(Ok(())));
    assert_eq!(server.connection.send(1, b"abcdef", true), Ok(2));
    // A smaller initial window makes the window of the stream negative.
    server.feed(&frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\x05"));
    server.feed(&window(1, 5));
    assert_eq!(server.room(1), Poll::Pending);
    server.feed(&window(1, 10));
    assert_eq!(server.connection.send(1, b"cdef", true), Ok(4));
    let content: Vec<_> = server.output().into_iter().filter(|frame| frame.0 == DATA).collect();
    let expected = [(0, &b"0123456789"[..]), (0, b"ab"), (END_STREAM, b"cdef")];
    assert_eq!(content, expected.map(|(flags, bytes)| (DATA, flags, 1, bytes.to_vec())));
    assert!(!server.connection.has_streams());
}

/// Streams take turns of one frame for the connection's window and the output buffer.
#[test]
fn streams_take_turns() {
    let mut server = Server::new(LIMITS);
    server.feed(&window(0, 1 << 20));
    server.feed(&frame(SETTINGS, 0, 0, b"\0\x04\0\x10\0\0"));
    let open = |n: u32| frame(HEADERS, WHOLE, n, GET);
    server.feed(&[open(1), open(3), open(5)].concat());
    server.output();
    let large = vec![7; 100_000];
    let first = respond(&mut server, 1, &large);
    assert!((60_000..=65_536).contains(&first), "{first}: the buffer is full");
    assert_eq!((respond(&mut server, 3, &large), respond(&mut server, 5, b"small")), (0, 0));
    assert!(
        server.room(3).is_pending() && server.room(5).is_pending() && server.room(1).is_pending()
    );
    assert!(server.connection.output_len() < 70_000);
    server.output();
    assert!(server.room(1).is_pending() && server.room(5).is_pending(), "it is not their turn");
    assert_eq!(server.room(3), Poll::Ready(Ok(())));
    assert_eq!(server.connection.send(3, &large, true), Ok(16_384));
    assert!(server.room(3).is_pending(), "the others are first");
    assert_eq!(server.connection.send(5, b"small", true), Ok(5));
    assert_eq!(server.connection.send(1, &large[first..], true), Ok(16_384));
    // A reset stream does not keep its turn.
    server.feed(&frame(RST_STREAM, 0, 3, &[0; 4]));
    assert_eq!(server.room(3), Poll::Ready(Err(Closed)));
    assert_eq!(server.room(1), Poll::Ready(Ok(())));
}

/// §8.1, §6.9.1
#[test]
fn content_is_received_and_discarded() {
    let mut server = Server::new(LIMITS);
    let requests = server.feed(&frame(HEADERS, END_HEADERS, 1, POST));
    assert!(requests[0].has_body);
    assert_eq!(server.body(1), Poll::Pending);
    for _ in 0..6 {
        server.feed(&frame(DATA, 0, 1, &[0; 15_000]));
    }
    let opened: Vec<_> =
        server.output().iter().filter(|f| f.0 == WINDOW_UPDATE).map(|f| f.2).collect();
    assert_eq!(opened, [0, 1, 1], "that of the connection only once");
    assert_eq!(server.body(1), Poll::Pending);
    server.feed(&frame(HEADERS, WHOLE, 1, b"\0\x01a\x01b"));
    assert_eq!(server.body(1), Poll::Ready(Ok(Body::Complete)));
    // Beyond the limit no window opens.
    server.feed(&frame(HEADERS, END_HEADERS, 3, POST));
    assert_eq!(server.body(3), Poll::Pending);
    for _ in 0..7 {
        server.feed(&frame(DATA, 0, 3, &[0; 15_000]));
    }
    assert_eq!(server.body(3), Poll::Ready(Ok(Body::TooLarge)));
    respond(&mut server, 3, b"too large");
    assert_eq!(server.reset(3), Some(0), "NO_ERROR: the client need not send the rest");
    for _ in 0..20 {
        server.feed(&frame(DATA, 0, 3, &[0; 15_000]));
    }
    assert_eq!(server.output(), []);
    // A client that ignores the window.
    server.feed(&frame(HEADERS, END_HEADERS, 5, POST));
    assert_eq!(server.body(5), Poll::Pending);
    for _ in 0..12 {
        server.feed(&frame(DATA, 0, 5, &[0; 16_000]));
    }
    assert_eq!(server.reset(5), FLOW_CONTROL_ERROR);
}

/// §6.2, §6.10: a block in several frames is the same as in one.
#[test]
fn blocks_may_span_frames() {
    let mut server = Server::new(LIMITS);
    let mut bytes =
        frame(HEADERS, 1 | 8 | 0x20, 1, &[b"\x02\0\0\0\0\x07", &GET[..1], b"\0\0"].concat());
    for byte in &GET[1..] {
        bytes.extend(frame(CONTINUATION, 0, 1, &[*byte]));
    }
    bytes.extend(frame(CONTINUATION, END_HEADERS, 1, &[]));
    let requests = server.feed(&bytes);
    assert_eq!((requests[0].head.authority(), requests[0].has_body), (Some("a"), false));
}

#[test]
fn large_heads_are_reported() {
    let mut server = Server::new(Limits { head: 100, ..LIMITS });
    // A field of 50 bytes twice, by an index, then another request.
    let field = [b"\x40\x01a\x32", &[b'b'; 50][..], b"\xbe"].concat();
    let requests = server.feed(&frame(HEADERS, WHOLE, 1, &[GET, &field].concat()));
    assert!(requests[0].head.is_large());
    assert!(!server.feed(&frame(HEADERS, WHOLE, 3, b"\x82"))[..].iter().any(|r| r.head.is_large()));
    // A response head larger than a frame.
    server
        .connection
        .respond(1, true, |block| {
            encoder::status(block, 200);
            encoder::field(block, b"a", "\u{ff}".repeat(20_000).as_bytes());
        })
        .unwrap();
    let kinds: Vec<_> = server
        .output()
        .iter()
        .filter(|f| f.2 == 1)
        .map(|f| (f.0, f.1, f.3.len() <= 16_384))
        .collect();
    assert_eq!(
        kinds,
        [(HEADERS, END_STREAM, true), (CONTINUATION, 0, true), (CONTINUATION, END_HEADERS, true)]
    );
}

/// §6.8
#[test]
fn a_graceful_shutdown_answers_requests_that_cross_it() {
    let mut server = Server::new(LIMITS);
    server.feed(&frame(HEADERS, WHOLE, 1, GET));
    server.connection.shut_down();
    let frames = server.output();
    assert_eq!((frames[0].0, &frames[0].3[..]), (GOAWAY, &b"\x7f\xff\xff\xff\0\0\0\0"[..]));
    assert_eq!(frames[1].0, PING);
    assert_eq!(server.feed(&frame(HEADERS, WHOLE, 3, GET)).len(), 1, "it crosses");
    server.feed(&frame(PING, ACK, 0, &frames[1].3));
    assert_eq!(server.output(), [(GOAWAY, 0, 0, b"\0\0\0\x03\0\0\0\0".to_vec())]);
    assert!(server.feed(&frame(HEADERS, WHOLE, 5, GET)).is_empty());
    assert_eq!(server.output(), [], "the client knows that it is not processed");
    respond(&mut server, 1, b"a");
    assert!(!server.connection.has_ended());
    respond(&mut server, 3, b"a");
    assert!(server.connection.has_ended());
}

/// RFC 7541 §4.2: after the client has reduced its table, the next block announces an empty one.
#[test]
fn a_smaller_table_is_announced() {
    let mut server = Server::new(LIMITS);
    server.feed(&frame(SETTINGS, 0, 0, b"\0\x01\0\0\x01\0"));
    server.feed(&[frame(HEADERS, WHOLE, 1, GET), frame(HEADERS, WHOLE, 3, GET)].concat());
    server.output();
    respond(&mut server, 1, b"a");
    respond(&mut server, 3, b"a");
    let blocks: Vec<_> =
        server.output().into_iter().filter(|f| f.0 == HEADERS).map(|f| f.3).collect();
    assert_eq!(blocks, [b"\x20\x88".to_vec(), b"\x88".to_vec()]);
}

#[test]
fn streams_can_be_reset() {
    let mut server = Server::new(LIMITS);
    server.feed(&frame(HEADERS, WHOLE, 1, GET));
    server.connection.reset(1, Code::CANCEL);
    assert_eq!(server.reset(1), Some(8));
    assert_eq!(server.connection.respond(1, true, |_| ()), Err(Closed));
}

/// §5.4.2
#[test]
fn a_reset_of_the_client_is_not_answered() {
    let mut server = Server::new(LIMITS);
    server.feed(&[frame(HEADERS, WHOLE, 1, GET), frame(RST_STREAM, 0, 1, &[0; 4])].concat());
    server.output();
    server.connection.reset(1, Code::INTERNAL_ERROR);
    assert_eq!(server.output(), []);
}

/// §6.9.2: a stream whose own window closes is no longer the first of those that wait for that of the connection.
#[test]
fn a_smaller_first_window_stops_no_other_streams() {
    let mut server = Server::new(LIMITS);
    server.feed(&[frame(HEADERS, WHOLE, 1, GET), frame(HEADERS, WHOLE, 3, GET)].concat());
    server.feed(&[window(1, 1000), window(3, 100_000)].concat());
    // All of the connection's window, which is a bit more than the buffer has room for.
    let first = respond(&mut server, 1, &[0; 70_000]);
    server.output();
    let second = server.connection.send(1, &[0; 70_000], true).unwrap();
    assert_eq!(first + second, 65_535);
    server.output();
    assert_eq!(respond(&mut server, 3, &[0; 1000]), 0);
    assert!(server.room(1).is_pending() && server.room(3).is_pending());
    server.feed(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0x80, 0]));
    server.feed(&window(0, 100_000));
    assert_eq!(server.room(3), Poll::Ready(Ok(())));
    assert_eq!(server.connection.send(3, &[0; 1000], true), Ok(1000));
    // The other one has its turn when its window opens.
    assert!(server.room(1).is_pending());
    server.feed(&window(1, 100_000));
    assert_eq!(server.room(1), Poll::Ready(Ok(())));
}
