//! Content of requests that an operation takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake};

use phalanx_http2::{Closed, Code, encoder};

use crate::peer::{
    DATA, END_HEADERS, END_STREAM, GET, HEADERS, LIMITS, POST, RST_STREAM, Server, WHOLE, frame,
};

/// The window of a stream, and that of a connection at first.
const WINDOW: usize = 65_535;
/// The window of a stream whose content is taken.
const TAKEN_WINDOW: usize = 256 << 10;

fn post(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, POST)
}

/// Feeds this much content.
fn send(server: &mut Server, stream: u32, mut length: usize) {
    while length > 0 {
        let piece = length.min(15_000);
        server.feed(&frame(DATA, 0, stream, &vec![stream as u8; piece]));
        length -= piece;
    }
}

#[test]
fn content_is_taken_in_order() {
    let mut server = Server::new(LIMITS);
    server.feed(&post(1));
    assert!(server.content(1).is_pending());
    server.feed(&[frame(DATA, 0, 1, b"ab"), frame(DATA, 0, 1, b"c")].concat());
    assert_eq!(server.content(1), Poll::Ready(Ok((b"abc".to_vec(), true))));
    assert!(server.content(1).is_pending());
    server.feed(&frame(DATA, 8, 1, b"\x01d\0"));
    server.feed(&frame(DATA, END_STREAM, 1, b"e"));
    assert_eq!(server.content(1), Poll::Ready(Ok((b"de".to_vec(), false))));
    assert_eq!(server.content(1), Poll::Ready(Ok((Vec::new(), false))), "again");
    // The end may follow alone, or as trailers.
    for (stream, end) in
        [(3, frame(DATA, END_STREAM, 3, b"")), (5, frame(HEADERS, WHOLE, 5, b"\0\x01a\x01b"))]
    {
        server.feed(&post(stream));
        send(&mut server, stream, 2);
        assert_eq!(server.content(stream), Poll::Ready(Ok((vec![stream as u8; 2], true))));
        server.feed(&end);
        assert_eq!(server.content(stream), Poll::Ready(Ok((Vec::new(), false))));
    }
}

/// A stream's window opens when its content is taken.
#[test]
fn a_slow_recipient_slows_the_client_down() {
    let mut server = Server::new(LIMITS);
    server.feed(&[post(1), post(3)].concat());
    send(&mut server, 1, WINDOW);
    assert_eq!(server.opened(1), 0);
    assert!(
        matches!(server.content(1), Poll::Ready(Ok((content, true))) if content.len() == WINDOW)
    );
    assert_eq!(server.opened(1), TAKEN_WINDOW as u32);
    // The windows of other streams are unaffected, and a client must not ignore its window.
    send(&mut server, 1, TAKEN_WINDOW);
    send(&mut server, 3, WINDOW);
    assert!(
        matches!(server.content(3), Poll::Ready(Ok((content, true))) if content.len() == WINDOW)
    );
    send(&mut server, 1, 1);
    assert_eq!(server.reset(1), Some(Code::FLOW_CONTROL_ERROR.0));
    assert_eq!(server.content(1), Poll::Ready(Err(Closed)));
    send(&mut server, 3, 1);
    assert!(server.content(3).is_ready());
}

/// Padding without content opens the window, although there is nothing to take.
#[test]
fn padding_opens_the_window() {
    let mut server = Server::new(LIMITS);
    server.feed(&post(1));
    let padding = [&[255][..], &[0; 255]].concat();
    for _ in 0..WINDOW.div_ceil(256) {
        server.feed(&frame(DATA, 8, 1, &padding));
    }
    assert_eq!(server.reset(1), None);
    assert!(server.content(1).is_pending());
}

/// Requests whose content nobody takes stop no other one: the connection's window is above those of all streams.
#[test]
fn kept_content_stops_no_other_request() {
    let mut server = Server::new(LIMITS);
    let streams = (1..2 * LIMITS.streams).step_by(2);
    for stream in streams.clone() {
        server.feed(&post(stream));
    }
    send(&mut server, 1, 1);
    assert_eq!(server.opened(0), i32::MAX as u32 - (WINDOW as u32 - 1));
    send(&mut server, 1, WINDOW - 1);
    for stream in streams.clone().skip(1) {
        send(&mut server, stream, WINDOW);
    }
    for stream in streams {
        assert!(server.content(stream).is_ready());
        assert_eq!(server.opened(stream) as usize, TAKEN_WINDOW);
    }
}

/// §8.1.1
#[test]
fn content_has_its_declared_length() {
    let head = [POST, b"\x0f\x0d\x013"].concat();
    for (stream, content, ends, is_expected) in
        [(1, &b"ab"[..], true, false), (3, b"abcd", false, false), (5, b"abc", true, true)]
    {
        let mut server = Server::new(LIMITS);
        let requests = server.feed(&frame(HEADERS, END_HEADERS, stream, &head));
        assert_eq!(requests[0].head.content_length(), Some(3));
        server.feed(&frame(DATA, u8::from(ends), stream, content));
        match is_expected {
            true => assert_eq!(server.content(stream), Poll::Ready(Ok((content.to_vec(), false)))),
            false => {
                assert_eq!(server.content(stream), Poll::Ready(Err(Closed)));
                assert_eq!(server.reset(stream), Some(Code::PROTOCOL_ERROR.0));
            }
        }
    }
}

/// Counts how often it is called.
#[derive(Default)]
struct WakeCounter(AtomicUsize);

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn operations_learn_that_their_stream_has_ended() {
    let calls = Arc::new(WakeCounter::default());
    let waker = calls.clone().into();
    let mut context = Context::from_waker(&waker);
    let mut server = Server::new(LIMITS);
    server.feed(&[post(1), post(3), post(5)].concat());
    for stream in [1, 3, 5] {
        assert!(server.connection.poll_closed(&mut context, stream).is_pending());
    }
    server.feed(&frame(RST_STREAM, 0, 1, &[0; 4]));
    assert_eq!(calls.0.load(Relaxed), 1);
    assert!(server.connection.poll_closed(&mut context, 1).is_ready());
    server.connection.disconnect();
    assert_eq!(calls.0.load(Relaxed), 3);
    for stream in [3, 5] {
        assert!(server.connection.poll_closed(&mut context, stream).is_ready());
        assert_eq!(server.content(stream), Poll::Ready(Err(Closed)));
    }
}

#[test]
fn interim_responses_precede_the_final_one() {
    let mut server = Server::new(LIMITS);
    server.feed(&post(1));
    server.connection.interim(1, |block| encoder::status(block, 100)).unwrap();
    assert!(server.content(1).is_pending());
    server.feed(&frame(DATA, END_STREAM, 1, b"a"));
    server.connection.respond(1, true, |block| encoder::status(block, 204)).unwrap();
    let heads: Vec<_> = server.output().into_iter().filter(|frame| frame.0 == HEADERS).collect();
    assert_eq!(heads.iter().map(|frame| frame.1).collect::<Vec<_>>(), [END_HEADERS, WHOLE]);
}

/// RFC 9113 §8.1.
#[test]
fn trailers_end_a_response() {
    let mut server = Server::new(LIMITS);
    server.feed(&frame(HEADERS, WHOLE, 1, GET));
    server.connection.respond(1, false, |block| encoder::status(block, 200)).unwrap();
    assert_eq!(server.connection.send(1, b"abc", false), Ok(3));
    let trailers = |block: &mut Vec<u8>| encoder::field(block, b"a", b"b");
    server.connection.trailers(1, trailers).unwrap();
    let sent: Vec<_> = server.output().into_iter().map(|(kind, flags, ..)| (kind, flags)).collect();
    assert_eq!(sent, [(HEADERS, END_HEADERS), (DATA, 0), (HEADERS, WHOLE)]);
    assert_eq!(server.connection.trailers(1, trailers), Err(Closed), "the stream has ended");
    assert!(!server.connection.has_streams());
}
