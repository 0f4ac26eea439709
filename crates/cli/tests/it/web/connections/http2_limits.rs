//! HTTP/2 at the level of frames: limits on what clients may do. The tests of the crate `http2` cover each kind of flood
//! and of malformed request.

use phalanx_testkit::bytes::{assert_same, random_bytes};
use phalanx_testkit::http2::{Connection, Frame, kind};

use crate::on_each_driver;
use crate::web::connections::http2::{site, start};

on_each_driver!(resets_below_the_bound, window_updates_for_sent_data, stalled_streams);

const CANCEL: u32 = 8;

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
            client.read_until(|client| client.is_over(stream));
            if client.reset(stream).is_none() {
                break;
            }
            stream += 2;
        }
        assert_eq!(client.answer(stream), (200, b"small".to_vec()));
        assert!(client.goaway_codes.is_empty());
    }
}

/// Two updates per KiB, more than 2,000 in total, which accompany useful work.
fn window_updates_for_sent_data(driver: &'static str) {
    let site = site();
    let server = start(driver, &site, &[]);
    let mut client = Connection::open(server.address, &[(WINDOW, 1024)]);
    client.get(1, "/large");
    let mut had = 0;
    while had < 1 << 20 {
        client.read_until(|client| client.content(1).len() > had);
        let increment = (client.content(1).len() - had) as u32;
        had += increment as usize;
        for stream in [0, 1] {
            client.send(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
        }
    }
    let (status, body) = client.answer(1);
    assert_eq!(status, 200);
    assert_same(&body, &random_bytes(1, 1 << 20));
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
    client.read_until(|client| client.reset(1).is_some());
    assert_eq!(client.reset(1), Some(CANCEL));
    assert_eq!(client.content(1).len(), 1000);
    client.get(3, "/small");
    assert_eq!(client.answer(3), (200, b"small".to_vec()));
}
