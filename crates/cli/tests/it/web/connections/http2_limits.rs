//! HTTP/2 at the level of frames: clients that cause much work with little traffic, and malformed requests.

use phalanx_testkit::bytes::{noise, same};
use phalanx_testkit::http::Client;
use phalanx_testkit::http2::{Connection, Frame, kind};

use crate::web::connections::http2::{ENHANCE_YOUR_CALM, PROTOCOL_ERROR, site, start};
use crate::{on_each_driver, on_one_driver};

on_each_driver!(resets_below_the_bound, window_updates_for_sent_data, stalled_streams);
on_one_driver!(useless_frames, blanks_around_values, fragments, lengths, connect);

const CANCEL: u32 = 8;

const ACK: u8 = 1;
/// END_STREAM and END_HEADERS.
const WHOLE: u8 = 5;
/// SETTINGS_INITIAL_WINDOW_SIZE
const WINDOW: u16 = 4;
/// GET, `http` and the authority `a`, at the beginning of a header block.
const BEGIN: &[u8] = b"\x82\x86\x01\x01a";

fn bytes(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    Frame { kind, flags, stream, payload: payload.to_vec() }.bytes()
}

/// A client may reset requests as soon as it has sent them.
fn resets_below_the_bound(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, &[]);
    let block = [BEGIN, b"\x04\x06/large"].concat();
    for pairs in [21, 900] {
        let mut client = Connection::open(server.address, &[]);
        let pair = |n: u32| {
            let stream = 2 * n + 1;
            let request = bytes(kind::HEADERS, WHOLE, stream, &block);
            [request, bytes(kind::RST_STREAM, 0, stream, &CANCEL.to_be_bytes())].concat()
        };
        client.send_bytes(&(0..pairs).flat_map(pair).collect::<Vec<_>>());
        // The server still processes reset streams, up to its limit of operations; beyond, it refuses new ones.
        let mut stream = 2 * pairs + 1;
        loop {
            client.get(stream, "/small");
            client.until(|client| client.is_over(stream));
            if client.reset(stream).is_none() {
                break;
            }
            stream += 2;
        }
        assert_eq!(client.answer(stream), (200, b"small".to_vec()));
        assert!(client.goodbyes.is_empty());
    }
}

fn useless_frames(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, &[]);
    let ping = bytes(kind::PING, ACK, 0, &[1; 8]);
    // (name, frame, whether a request with a body is in progress)
    let table = [
        ("updates of one byte", bytes(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]), false),
        ("updates of the connection", bytes(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]), false),
        ("frames of an unknown kind", bytes(0xbb, 0, 0, &[]), false),
        ("larger ones", bytes(0xbb, 0xff, 1, &[0; 100]), false),
        ("answers to no ping", ping, false),
        ("small pieces of content", bytes(kind::DATA, 0, 1, b"x"), true),
    ];
    for (what, frame, has_body) in table {
        let mut client = Connection::open(server.address, &[(WINDOW, 0)]);
        if has_body {
            client.post(1, "/large");
        } else {
            client.get(1, "/large");
        }
        client.send_bytes(&frame.repeat(1500));
        assert_eq!(client.goodbye(), ENHANCE_YOUR_CALM, "{what}");
    }
    assert_eq!(Client::connect(server.address).get("/small").status, 200);
}

/// Two updates per KiB, more than 2,000 in total, which accompany useful work.
fn window_updates_for_sent_data(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, &[]);
    let mut client = Connection::open(server.address, &[(WINDOW, 1024)]);
    client.get(1, "/large");
    let mut had = 0;
    while had < 1 << 20 {
        client.until(|client| client.content(1).len() > had);
        let more = (client.content(1).len() - had) as u32;
        had += more as usize;
        for stream in [0, 1] {
            client.send(kind::WINDOW_UPDATE, 0, stream, &more.to_be_bytes());
        }
    }
    let (status, body) = client.answer(1);
    assert_eq!(status, 200);
    same(&body, &noise(1, 1 << 20));
    client.get(3, "/small");
    client.send(kind::WINDOW_UPDATE, 0, 3, &1_u32.to_be_bytes());
    assert_eq!(client.answer(3).0, 200);
}

/// A stream without window updates is reset; it is not a fault of the server.
fn stalled_streams(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, &["--set", "send-timeout = '1s'"]);
    let mut client = Connection::open(server.address, &[(WINDOW, 1000)]);
    client.get(1, "/large");
    client.until(|client| client.reset(1).is_some());
    assert_eq!(client.reset(1), Some(CANCEL));
    assert_eq!(client.content(1).len(), 1000);
    client.get(3, "/small");
    assert_eq!(client.answer(3), (200, b"small".to_vec()));
}

fn blanks_around_values(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, &[]);
    let mut client = Connection::open(server.address, &[]);
    let begin = [(":method", "GET"), (":scheme", "http"), (":path", "/small"), (":authority", "a")];
    let mut stream = 1;
    for value in [" a", "a ", "\ta", "a\t", " ", "\t", " a "] {
        client.headers(stream, true, &[&begin[..], &[("x", value)]].concat());
        client.until(|client| client.reset(stream).is_some());
        assert_eq!(client.reset(stream), Some(PROTOCOL_ERROR), "{value:?}");
        // After a body, too.
        stream += 2;
        client.post(stream, "/small");
        client.send(kind::DATA, 0, stream, b"x");
        client.headers(stream, true, &[("x", value)]);
        client.until(|client| client.reset(stream).is_some());
        assert_eq!(client.reset(stream), Some(PROTOCOL_ERROR), "{value:?}");
        stream += 2;
    }
    client.headers(stream, true, &[&begin[..], &[("x", "a \t b"), ("y", "")]].concat());
    assert_eq!(client.answer(stream).0, 200);
}

fn fragments(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, &[]);
    let mut client = Connection::open(server.address, &[]);
    let paths: [&[u8]; 7] = [
        b"\x04\x08/small#x",
        b"\x04\x0a/small?y#x",
        b"\x04\x01#",
        // /a#b in Huffman code.
        b"\x04\x84\x60\x7f\xf5\x1f",
        b"\x00\x05:path\x08/small#x",
        // Added to the dynamic table, and then referenced.
        b"\x44\x08/small#x",
        b"\xbe",
    ];
    let mut stream = 1;
    for path in paths {
        client.send(kind::HEADERS, WHOLE, stream, &[BEGIN, path].concat());
        client.until(|client| client.is_over(stream));
        assert_eq!(client.reset(stream), Some(PROTOCOL_ERROR), "{path:?}");
        stream += 2;
        client.get(stream, "/small");
        assert_eq!(client.answer(stream), (200, b"small".to_vec()), "behind {path:?}");
        stream += 2;
    }
    // Only an absolute path is valid.
    for path in ["http://b/small", "small", "", "/a b"] {
        client.headers(
            stream,
            true,
            &[(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "a")],
        );
        client.until(|client| client.is_over(stream));
        assert_eq!(client.reset(stream), Some(PROTOCOL_ERROR), "{path:?}");
        stream += 2;
    }
}

fn lengths(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, &[]);
    let mut client = Connection::open(server.address, &[]);
    let mut stream = 1;
    for lengths in
        [&["+4"][..], &["4, 4"], &["4", "5"], &["5", "4"], &["5"], &["3"], &["-4"], &[""]]
    {
        let begin =
            [(":method", "POST"), (":scheme", "http"), (":path", "/small"), (":authority", "a")];
        let lengths: Vec<_> = lengths.iter().map(|length| ("content-length", *length)).collect();
        client.headers(stream, false, &[&begin[..], &lengths].concat());
        client.send(kind::DATA, 1, stream, b"some");
        client.until(|client| client.is_over(stream));
        assert_eq!(client.reset(stream), Some(PROTOCOL_ERROR), "{lengths:?}");
        stream += 2;
    }
    client.get(stream, "/small");
    assert_eq!(client.answer(stream).0, 200);
}

/// CONNECT is not served, and gets a response although its body has no end.
fn connect(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, &[]);
    let mut client = Connection::open(server.address, &[]);
    client.headers(1, false, &[(":method", "CONNECT"), (":authority", "b:443")]);
    assert_eq!(client.answer(1).0, 405);
    client.headers(3, true, &[(":method", "CONNECT"), (":authority", "b:443"), ("host", "a:443")]);
    client.until(|client| client.is_over(3));
    assert_eq!(client.reset(3), Some(PROTOCOL_ERROR));
}
