//! Properties of the codec: decoding reverses encoding, however the input is split.

use phalanx_nats::{Bounds, Frame};
use proptest::prelude::*;

const BOUNDS: Bounds = Bounds::of_payload(64);

/// The parts of a frame.
#[derive(Clone, Debug)]
struct Parts {
    kind: usize,
    subject: String,
    other: Option<String>,
    id: u64,
    max: Option<u64>,
    headers: Option<Vec<u8>>,
    payload: Vec<u8>,
}

impl Parts {
    fn frame(&self) -> Frame<'_> {
        let Self { subject, id, max, payload, .. } = self;
        let (id, max, reply, headers) = (*id, *max, self.other.as_deref(), self.headers.as_deref());
        match self.kind {
            0 => Frame::Message { subject, id, reply, headers, payload },
            1 => Frame::Publish { subject, reply, headers, payload },
            2 => Frame::Subscribe { subject, queue: reply, id },
            3 => Frame::Unsubscribe { id, max },
            4 => Frame::Info(subject),
            5 => Frame::Connect(subject),
            6 => Frame::Error(subject),
            7 => Frame::Ping,
            8 => Frame::Pong,
            _ => Frame::Ok,
        }
    }
}

fn parts() -> impl Strategy<Value = Parts> {
    let word = "[a-zA-Z0-9$_*>.-]{1,12}";
    let headers = prop::collection::vec(any::<u8>(), 0..20).prop_map(|rest| {
        let mut block = b"NATS/1.0".to_vec();
        block.extend(rest);
        block
    });
    let payload = prop::collection::vec(any::<u8>(), 0..32);
    let (other, headers) = (prop::option::of(word), prop::option::of(headers));
    (0..10usize, word, other, any::<u64>(), any::<Option<u64>>(), headers, payload).prop_map(
        |(kind, subject, other, id, max, headers, payload)| Parts {
            kind,
            subject,
            other,
            id,
            max,
            headers,
            payload,
        },
    )
}

proptest! {
    #[test]
    fn encoded_frames_are_decoded(all in prop::collection::vec(parts(), 1..6)) {
        let mut bytes = Vec::new();
        all.iter().for_each(|parts| parts.frame().encode(&mut bytes));
        let mut consumed = 0;
        for parts in &all {
            let (frame, length) = Frame::decode(&bytes[consumed..], BOUNDS).unwrap().unwrap();
            prop_assert_eq!(frame, parts.frame());
            // Every prefix is incomplete.
            for end in consumed..consumed + length {
                prop_assert_eq!(Frame::decode(&bytes[consumed..end], BOUNDS), Ok(None));
            }
            consumed += length;
        }
        prop_assert_eq!(consumed, bytes.len());
    }

    #[test]
    fn any_input_is_decoded_or_refused(input in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(Some((_, length))) = Frame::decode(&input, BOUNDS) {
            prop_assert!(length <= input.len());
        }
    }
}
