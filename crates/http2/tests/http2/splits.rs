//! The result does not depend on how the input is split.

use crate::peer::*;
use phalanx_http2::{Connection, encoder};
use proptest::prelude::*;

/// A client's frame, valid or not.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let block = prop_oneof![
        4 => Just(GET.to_vec()),
        2 => Just([GET, b"\x40\x01a\x02bc\x7e\x01b\x00\x01d\x00"].concat()),
        1 => Just([GET, b"\xbe\xbf"].concat()),
        1 => Just(POST.to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    let stream =
        prop_oneof![4 => (0..20_u32).prop_map(|n| 2 * n + 1), 1 => Just(0), 1 => any::<u32>()];
    let payload = prop::collection::vec(any::<u8>(), 0..300);
    prop_oneof![
        6 => (stream.clone(), block, prop_oneof![4 => Just(WHOLE), 2 => Just(END_HEADERS), 1 => any::<u8>()])
            .prop_map(|(stream, block, flags)| frame(HEADERS, flags, stream, &block)),
        2 => (stream.clone(), payload.clone(), 0..2_u8)
            .prop_map(|(stream, payload, flags)| frame(DATA, flags, stream, &payload)),
        2 => (stream.clone(), 0..100_000_u32)
            .prop_map(|(stream, by)| frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes())),
        1 => (0..100_000_u32).prop_map(|window| {
            frame(SETTINGS, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat())
        }),
        1 => stream.clone().prop_map(|stream| frame(RST_STREAM, 0, stream, &[0; 4])),
        1 => Just(frame(PING, 0, 0, &[1; 8])),
        1 => (any::<u8>(), any::<u8>(), stream, payload)
            .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload)),
    ]
}

/// Requests and output of a server that answers each request immediately.
fn serve<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, Vec<u8>) {
    let mut server = Server::new(LIMITS);
    let mut requests = Vec::new();
    let mut pending = Vec::new();
    for piece in pieces {
        for request in server.feed(piece) {
            requests.push(format!("{request:?}"));
            pending.push(request.stream);
        }
    }
    for stream in pending {
        let connection: &mut Connection = &mut server.connection;
        if connection.respond(stream, false, |block| encoder::status(block, 404)).is_ok() {
            let _ = connection.send(stream, &[b'x'; 1000], true);
        }
        assert!(connection.output_len() < 200_000);
    }
    (requests, server.connection.take_output(Vec::new()))
}

proptest! {
    #[test]
    fn any_split_gives_the_same_result(
        frames in prop::collection::vec(any_frame(), 0..40),
        sizes in prop::collection::vec(1..50_usize, 1..20),
    ) {
        let bytes = frames.concat();
        let whole = serve(std::iter::once(&bytes[..]));
        let mut rest = &bytes[..];
        let mut sizes = sizes.iter().cycle();
        let pieces = std::iter::from_fn(|| {
            let (piece, after) = rest.split_at(rest.len().min(*sizes.next()?));
            rest = after;
            (!piece.is_empty()).then_some(piece)
        });
        prop_assert_eq!(serve(pieces), whole);
    }

    #[test]
    fn any_bytes_are_handled(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        serve(bytes.chunks(7));
    }
}
