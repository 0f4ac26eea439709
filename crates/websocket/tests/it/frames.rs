//! Frames as clients send them, in pieces of any length.

use phalanx_websocket::{Code, Decoder, binary, close};
use proptest::prelude::*;

/// A client's frame.
fn frame(first: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let mut bytes = Vec::new();
    binary(payload.len(), &mut bytes);
    bytes[0] = first;
    bytes[1] |= 0x80;
    bytes.extend_from_slice(&mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// Feeds bytes in pieces of these lengths; returns the data, the answers, and whether decoding succeeded.
fn feed(raw: &[u8], piece: usize) -> (Vec<u8>, Vec<u8>, Option<Code>) {
    let (mut decoder, mut data, mut answers) = (Decoder::new(), Vec::new(), Vec::new());
    for piece in raw.chunks(piece.max(1)) {
        if let Err(broken) = decoder.feed(piece, &mut data, &mut answers) {
            assert!(decoder.is_closed());
            return (data, answers, Some(broken.code));
        }
    }
    (data, answers, None)
}

#[derive(Clone, Debug)]
enum Sent {
    Message(Vec<Vec<u8>>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
}

fn sent() -> impl Strategy<Value = Sent> {
    let bytes = |max| prop::collection::vec(any::<u8>(), 0..max);
    prop_oneof![
        prop::collection::vec(bytes(300), 1..4).prop_map(Sent::Message),
        (65530usize..65600).prop_map(|length| Sent::Message(vec![vec![7; length]])),
        bytes(126).prop_map(Sent::Ping),
        bytes(126).prop_map(Sent::Pong),
    ]
}

proptest! {
    #[test]
    fn sent_messages_arrive(
        all in prop::collection::vec(sent(), 0..8),
        mask in any::<[u8; 4]>(),
        piece in prop_oneof![1usize..20, Just(100_000)],
    ) {
        let (mut raw, mut data, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for sent in &all {
            match sent {
                Sent::Message(pieces) => {
                    for (n, piece) in pieces.iter().enumerate() {
                        let last = if n + 1 == pieces.len() { 0x80 } else { 0 };
                        raw.extend(frame(last | if n == 0 { 2 } else { 0 }, piece, mask));
                        // Between the pieces of a message.
                        raw.extend(frame(0x8a, b"here", mask));
                        data.extend_from_slice(piece);
                    }
                }
                Sent::Ping(payload) => {
                    raw.extend(frame(0x89, payload, mask));
                    answers.extend([0x8a, payload.len() as u8]);
                    answers.extend_from_slice(payload);
                }
                Sent::Pong(payload) => raw.extend(frame(0x8a, payload, mask)),
            }
        }
        prop_assert_eq!(feed(&raw, piece), (data, answers, None));
    }

    #[test]
    fn anything_at_all(raw in prop::collection::vec(any::<u8>(), 0..200), piece in 1usize..50) {
        let whole = feed(&raw, raw.len());
        prop_assert!(whole.0.len() <= raw.len() && whole.1.len() <= raw.len() + 4);
        prop_assert_eq!(feed(&raw, piece), whole);
    }
}

#[test]
fn invalid_frames_are_refused() {
    let zero = [0; 4];
    let owned = |bytes: &[u8]| bytes.to_vec();
    // (bytes, why it is closed)
    let table = [
        (owned(b"\x82\x01a"), Code::ProtocolError),
        (owned(b"\xc2\x81\0\0\0\0a"), Code::ProtocolError),
        (frame(0x81, b"text", zero), Code::UnsupportedData),
        (frame(0x80, b"a", zero), Code::ProtocolError),
        ([frame(2, b"a", zero), frame(0x82, b"b", zero)].concat(), Code::ProtocolError),
        (frame(0x83, b"", zero), Code::ProtocolError),
        (frame(0x09, b"", zero), Code::ProtocolError),
        (frame(0x89, &[0; 126], zero), Code::ProtocolError),
        (owned(b"\x82\xfe\0\x7d\0\0\0\0"), Code::ProtocolError),
        (owned(b"\x82\xff\0\0\0\0\0\0\xff\xff\0\0\0\0"), Code::ProtocolError),
        (owned(b"\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0"), Code::ProtocolError),
        (frame(0x88, b"\x03", zero), Code::ProtocolError),
        (frame(0x88, b"\x03\xed", zero), Code::ProtocolError),
        (frame(0x88, b"\x03\xe8\xff", zero), Code::ProtocolError),
    ];
    for (bytes, code) in table {
        let mut messages = Vec::new();
        close(code, &mut messages);
        for piece in [1, 100] {
            let (_, answers, broken) = feed(&bytes, piece);
            assert_eq!((broken, &answers), (Some(code), &messages), "{bytes:x?}");
        }
    }
}

#[test]
fn the_clients_end() {
    for (payload, answer) in
        [(&b""[..], &b"\x88\x02\x03\xe8"[..]), (b"\x0f\xa0why", b"\x88\x02\x0f\xa0")]
    {
        let raw = [frame(0x88, payload, [1, 2, 3, 4]), frame(0x82, b"late", [0; 4])].concat();
        assert_eq!(feed(&raw, 3), (Vec::new(), answer.to_vec(), None));
    }
}
