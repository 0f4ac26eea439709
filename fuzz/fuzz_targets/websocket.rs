//! Input of a WebSocket client: its request, and the frames after it.
//!
//! However the input is split, it yields the same data, the same answers and the same end, and answers only to
//! received frames.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_websocket::{DecodeError, Decoder, Upgrade};

fn feed(raw: &[u8], piece: usize) -> (Vec<u8>, Vec<u8>, Result<(), DecodeError>) {
    let (mut decoder, mut data, mut answers) = (Decoder::new(), Vec::new(), Vec::new());
    for piece in raw.chunks(piece) {
        if let Err(broken) = decoder.feed(piece, &mut data, &mut answers) {
            assert!(decoder.is_closed());
            return (data, answers, Err(broken));
        }
    }
    (data, answers, Ok(()))
}

fuzz_target!(|data: &[u8]| {
    let Some((&first, bytes)) = data.split_first() else { return };
    if first == b'G' {
        let Ok(Some(upgrade)) = Upgrade::read(data, "mqtt") else { return };
        assert!(data[..upgrade.length].ends_with(b"\n"));
        // A prefix of it is incomplete.
        assert_eq!(Upgrade::read(&data[..upgrade.length - 1], "mqtt"), Ok(None));
        return;
    }
    let whole = feed(bytes, bytes.len().max(1));
    assert!(whole.0.len() <= bytes.len() && whole.1.len() <= bytes.len() + 4);
    assert_eq!(feed(bytes, usize::from(first).max(1)), whole);
});
