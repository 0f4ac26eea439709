//! The streams of an HTTP/3 client: a request's, and those that carry none.
//!
//! However a stream is divided, the result is the same, and the fields of a request stay within the limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_http2::Flood;
use phalanx_http3::{Error, Limits, Peer, PeerStream, Received, Receiver, decode_block, encoder};

const LIMITS: Limits = Limits { head: 512 };

fn request(stream: &[u8], piece: usize) -> Result<(Vec<String>, Vec<u8>), Error> {
    let (mut receiver, mut heads, mut content) = (Receiver::new(LIMITS), Vec::new(), Vec::new());
    let mut flood = Flood::default();
    for mut input in stream.chunks(piece) {
        while let Some(received) = receiver.receive(&mut input, &mut flood)? {
            match received {
                Received::Head(head) => {
                    assert!(head.lines().len() <= LIMITS.head);
                    let mut block = Vec::new();
                    let field = phalanx_http2::encoder::field;
                    head.fields().for_each(|(name, value)| field(&mut block, name, value));
                    let mut frame = Vec::new();
                    encoder::head_of(&mut frame, &block);
                    heads.push(format!("{head:?}"));
                }
                Received::Content(piece) => content.extend_from_slice(piece),
            }
        }
        assert!(input.is_empty());
    }
    receiver.finish()?;
    assert_eq!(heads.len(), 1);
    Ok((heads, content))
}

fn peer(stream: &[u8], piece: usize) -> Result<bool, Error> {
    let (mut peer, mut receiver) = (Peer::default(), PeerStream::default());
    let mut flood = Flood::default();
    for input in stream.chunks(piece) {
        if !receiver.receive(&mut peer, input, &mut flood)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fuzz_target!(|data: &[u8]| {
    let Some((&first, bytes)) = data.split_first() else { return };
    let (whole, piece) = (bytes.len().max(1), usize::from(first).max(1));
    assert_eq!(request(bytes, piece), request(bytes, whole));
    assert_eq!(peer(bytes, piece), peer(bytes, whole));
    let _ = decode_block(bytes);
});
