//! Input of a NATS client: frames of its server.
//!
//! A decoded frame is complete, and is decoded again after it was encoded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_nats::{Bounds, Frame};

const BOUNDS: Bounds = Bounds { line: 256, payload: 1024 };

fuzz_target!(|data: &[u8]| {
    let mut done = 0;
    while let Ok(Some((frame, length))) = Frame::decode(&data[done..], BOUNDS) {
        assert_eq!(Frame::decode(&data[done..done + length - 1], BOUNDS), Ok(None));
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let again = Frame::decode(&bytes, Bounds { line: 1024, ..BOUNDS });
        assert_eq!(again, Ok(Some((frame, bytes.len()))));
        done += length;
    }
});
