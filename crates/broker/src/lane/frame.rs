//! Frames exchanged by nodes.

use serde::{Deserialize, Serialize};

/// A payload for one node.
#[derive(Debug, PartialEq)]
pub(crate) enum NodeFrame<'a> {
    /// Asks for a lane.
    Open(Side),
    /// Grants a lane.
    Accept(Side),
    /// Ends a lane, with a reason.
    Close {
        lane: u64,
        reason: &'a str,
    },
    /// Bytes of a lane, possibly none.
    Data(Data<'a>),
    /// Claims that the node may have missed.
    Claims(&'a [u8]),
    /// Asks for the messages that the node has queued for a lost node: see `cluster/adoption/handover.rs`.
    HandOver {
        lane: u64,
        json: &'a [u8],
    },
    /// Asks which QoS 2 messages of a lost node the receiver has: see `cluster/adoption/relay.rs`. `Received` is the
    /// answer.
    AskReceived {
        lane: u64,
        json: &'a [u8],
    },
    Received {
        lane: u64,
        json: &'a [u8],
    },
}

/// One side of a lane.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Side {
    pub(crate) lane: u64,
    /// The starts of the sending and of the receiving node between which the lane exists.
    pub(crate) from: String,
    pub(crate) to: String,
    /// Whether the sender's session for the receiver is new.
    pub(crate) is_fresh: bool,
    /// Identifies that session. QoS 2 packet identifiers are valid only within it.
    pub(crate) session: String,
}

/// Bytes of a lane, and acknowledgements of the opposite direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data<'a> {
    pub(crate) lane: u64,
    /// The offset of the first byte.
    pub(crate) offset: u64,
    /// The numbers of bytes that the sender has received and processed.
    pub(crate) received: u64,
    pub(crate) processed: u64,
    pub(crate) bytes: &'a [u8],
}

impl<'a> NodeFrame<'a> {
    /// Appends the encoded frame.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let json = |out: &mut Vec<u8>, side| {
            // Cannot fail: the structure has only texts and numbers.
            let _ = serde_json::to_writer(out, side);
        };
        match self {
            Self::Open(side) => {
                out.push(b'O');
                json(out, side);
            }
            Self::Accept(side) => {
                out.push(b'A');
                json(out, side);
            }
            Self::Close { lane, reason } => {
                out.push(b'C');
                out.extend_from_slice(&lane.to_be_bytes());
                out.extend_from_slice(reason.as_bytes());
            }
            Self::Data(Data { lane, offset, received, processed, bytes }) => {
                out.push(b'D');
                for number in [lane, offset, received, processed] {
                    out.extend_from_slice(&number.to_be_bytes());
                }
                out.extend_from_slice(bytes);
            }
            Self::HandOver { lane, json }
            | Self::AskReceived { lane, json }
            | Self::Received { lane, json } => {
                out.push(match self {
                    Self::HandOver { .. } => b'H',
                    Self::AskReceived { .. } => b'Q',
                    _ => b'R',
                });
                out.extend_from_slice(&lane.to_be_bytes());
                out.extend_from_slice(json);
            }
            Self::Claims(json) => {
                out.push(b'T');
                out.extend_from_slice(json);
            }
        }
    }

    /// Decodes a payload; `None` if it is not one of this version.
    pub(crate) fn decode(payload: &'a [u8]) -> Option<Self> {
        let (kind, rest) = payload.split_first()?;
        match kind {
            b'O' => serde_json::from_slice(rest).ok().map(Self::Open),
            b'A' => serde_json::from_slice(rest).ok().map(Self::Accept),
            b'C' => {
                let (lane, reason) = number(rest)?;
                Some(Self::Close { lane, reason: std::str::from_utf8(reason).ok()? })
            }
            b'D' => {
                let (lane, rest) = number(rest)?;
                let (offset, rest) = number(rest)?;
                let (received, rest) = number(rest)?;
                let (processed, bytes) = number(rest)?;
                Some(Self::Data(Data { lane, offset, received, processed, bytes }))
            }
            b'H' | b'Q' | b'R' => {
                let (lane, json) = number(rest)?;
                Some(match kind {
                    b'H' => Self::HandOver { lane, json },
                    b'Q' => Self::AskReceived { lane, json },
                    _ => Self::Received { lane, json },
                })
            }
            b'T' => Some(Self::Claims(rest)),
            _ => None,
        }
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_frames_are_decoded() {
        let side =
            Side { lane: 7, from: "a".into(), to: "b".into(), is_fresh: true, session: "s".into() };
        let data = Data { lane: u64::MAX, offset: 1, received: 2, processed: 3, bytes: b"bytes" };
        for frame in [
            NodeFrame::Open(side.clone()),
            NodeFrame::Accept(side),
            NodeFrame::Close { lane: 1, reason: "" },
            NodeFrame::Data(data),
            NodeFrame::Claims(b"[]"),
            NodeFrame::HandOver { lane: 1, json: b"{}" },
            NodeFrame::AskReceived { lane: 2, json: b"{}" },
            NodeFrame::Received { lane: 3, json: b"{}" },
        ] {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            assert_eq!(NodeFrame::decode(&bytes), Some(frame));
        }
        for bytes in [&b""[..], b"X", b"D1234567", b"O{}", b"C12345678\xff"] {
            assert_eq!(NodeFrame::decode(bytes), None);
        }
    }
}
