//! The streams of a client that carry no request: control, and header compression (RFC 9114 §6.2).

use phalanx_http2::{Excess, Flood};

use crate::error::{Code, Error};
use crate::frame::{FrameHeader, Payload, is_reserved, kind};
use crate::qpack::instructions::{DecoderStream, is_encoder_stream};
use crate::settings::Settings;
use crate::varint;

/// The largest payload of a frame on a control stream that is not ignored, in bytes.
pub const MAX_CONTROL_FRAME_BYTES: usize = 1024;

/// State shared by a client's streams; one for each connection.
#[derive(Debug, Default)]
pub struct Peer {
    /// Streams that exist at most once, by their type.
    opened: [bool; 4],
    has_settings: bool,
    max_push: Option<u64>,
    goaway: Option<u64>,
}

/// Reads a stream of the client, in pieces of any size.
#[derive(Debug, Default)]
pub struct PeerStream {
    state: State,
}

/// Types of streams (RFC 9114 §6.2, RFC 9204 §4.2).
const CONTROL: u64 = 0;
const PUSH: u64 = 1;
const ENCODER: u64 = 2;
const DECODER: u64 = 3;

#[derive(Debug)]
enum State {
    /// Bytes of the type.
    Type([u8; varint::MAX_BYTES], usize),
    Control(FrameHeader, Option<ControlFrame>),
    Encoder,
    Decoder(DecoderStream),
    /// A stream of an unknown type.
    Unknown,
}

#[derive(Debug)]
enum ControlFrame {
    Known(u64, Payload),
    /// The remaining bytes.
    Ignored(u64),
}

impl Default for State {
    fn default() -> Self {
        Self::Type([0; varint::MAX_BYTES], 0)
    }
}

impl PeerStream {
    /// Processes all of `input`, and counts frames. Returns whether the rest of the stream is needed; if not, the
    /// caller stops it with [`Code::STREAM_CREATION_ERROR`].
    ///
    /// # Errors
    /// If the client violates the protocol.
    pub fn receive(
        &mut self,
        peer: &mut Peer,
        mut input: &[u8],
        flood: &mut Flood,
    ) -> Result<bool, Error> {
        if let State::Type(bytes, held) = &mut self.state {
            let kind = loop {
                if let Some(kind) = varint::decode(&mut &bytes[..*held]) {
                    break kind;
                }
                let Some((first, rest)) = input.split_first() else { return Ok(true) };
                bytes[*held] = *first;
                *held += 1;
                input = rest;
            };
            self.state = peer.open_stream(kind)?;
        }
        match &mut self.state {
            State::Type(..) => unreachable!("replaced above"),
            State::Control(header, frame) => peer.control((header, frame), input, flood)?,
            State::Encoder if is_encoder_stream(input) => (),
            State::Encoder => return Err(Error::Connection(Code::QPACK_ENCODER_STREAM_ERROR)),
            State::Decoder(stream) => {
                stream.receive(input).ok_or(Error::Connection(Code::QPACK_DECODER_STREAM_ERROR))?
            }
            State::Unknown => {
                flood.costly(1, Excess::ControlFrames);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Records that the stream has ended, or that the client has reset it.
    ///
    /// # Errors
    /// If it must stay open (RFC 9114 §6.2.1, RFC 9204 §4.2).
    pub fn finish(&self) -> Result<(), Error> {
        match self.state {
            State::Type(..) | State::Unknown => Ok(()),
            _ => Err(Error::Connection(Code::CLOSED_CRITICAL_STREAM)),
        }
    }
}

impl Peer {
    fn open_stream(&mut self, kind: u64) -> Result<State, Error> {
        // Only servers push.
        let is_unexpected = match kind {
            PUSH => true,
            CONTROL | ENCODER | DECODER => std::mem::replace(&mut self.opened[kind as usize], true),
            _ => false,
        };
        if is_unexpected {
            return Err(Error::Connection(Code::STREAM_CREATION_ERROR));
        }
        Ok(match kind {
            CONTROL => State::Control(FrameHeader::default(), None),
            ENCODER => State::Encoder,
            DECODER => State::Decoder(DecoderStream::default()),
            _ => State::Unknown,
        })
    }

    fn control(
        &mut self,
        (header, frame): (&mut FrameHeader, &mut Option<ControlFrame>),
        mut input: &[u8],
        flood: &mut Flood,
    ) -> Result<(), Error> {
        loop {
            match frame {
                None => {
                    let Some((kind, length)) = header.receive(&mut input) else { return Ok(()) };
                    let new_frame = self.begin_frame(kind, length)?;
                    match new_frame {
                        ControlFrame::Known(..) => flood.costly(1, Excess::ControlFrames),
                        ControlFrame::Ignored(_) => flood.idle(1),
                    }
                    *frame = Some(new_frame);
                }
                Some(ControlFrame::Ignored(0)) => *frame = None,
                Some(ControlFrame::Ignored(_)) if input.is_empty() => return Ok(()),
                Some(ControlFrame::Ignored(left)) => {
                    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                    *left -= length as u64;
                    input = &input[length..];
                }
                Some(ControlFrame::Known(kind, payload)) => {
                    let kind = *kind;
                    let (consumed, payload) = payload.receive(input);
                    input = &input[consumed..];
                    let Some(payload) = payload else { return Ok(()) };
                    self.control_frame(kind, payload)?;
                    *frame = None;
                }
            }
        }
    }

    fn begin_frame(&mut self, kind: u64, length: u64) -> Result<ControlFrame, Error> {
        let is_settings = kind == kind::SETTINGS;
        // RFC 9114 §6.2.1 and §7.2.4.
        if !self.has_settings && !is_settings {
            return Err(Error::Connection(Code::MISSING_SETTINGS));
        }
        let is_unexpected = matches!(kind, kind::DATA | kind::HEADERS | kind::PUSH_PROMISE);
        if is_unexpected || is_reserved(kind) || self.has_settings && is_settings {
            return Err(Error::Connection(Code::FRAME_UNEXPECTED));
        }
        self.has_settings = true;
        match kind {
            kind::SETTINGS | kind::GOAWAY | kind::MAX_PUSH_ID | kind::CANCEL_PUSH => {
                Ok(ControlFrame::Known(kind, Payload::new(length, MAX_CONTROL_FRAME_BYTES)?))
            }
            _ => Ok(ControlFrame::Ignored(length)),
        }
    }

    fn control_frame(&mut self, kind: u64, mut payload: &[u8]) -> Result<(), Error> {
        if kind == kind::SETTINGS {
            // The settings have no effect, because the server compresses without a dynamic table, and its response
            // heads are small.
            return Settings::decode(payload).map(drop);
        }
        let id = varint::decode(&mut payload).filter(|_| payload.is_empty());
        let id = id.ok_or(Error::Connection(Code::FRAME_ERROR))?;
        let is_valid = match kind {
            kind::GOAWAY => self.goaway.replace(id).is_none_or(|before| id <= before),
            kind::MAX_PUSH_ID => self.max_push.replace(id).is_none_or(|before| id >= before),
            // Nothing was promised.
            _ => false,
        };
        if is_valid { Ok(()) } else { Err(Error::Connection(Code::ID_ERROR)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder;

    fn received(streams: &[&[u8]], piece: usize) -> Result<(), Error> {
        let (mut peer, mut flood) = (Peer::default(), Flood::default());
        for stream in streams {
            let mut receiver = PeerStream::default();
            for input in stream.chunks(piece) {
                if !receiver.receive(&mut peer, input, &mut flood)? {
                    break;
                }
            }
        }
        Ok(())
    }

    #[test]
    fn streams_of_a_client_are_received() {
        let mut control = Vec::new();
        encoder::control_stream(&mut control, 1000);
        // MAX_PUSH_ID, an unknown frame, and GOAWAY twice.
        control.extend_from_slice(b"\x0d\x01\x05\x21\x03abc\x0d\x01\x05\x07\x01\x04\x07\x01\x04");
        let unknown = b"\x40\x54anything".as_slice();
        for piece in [1, 2, 1000] {
            let streams = [&control[..], b"\x02\x20", b"\x03\x44", unknown, unknown];
            assert_eq!(received(&streams, piece), Ok(()));
        }
        let mut stream = PeerStream::default();
        assert_eq!(stream.finish(), Ok(()));
        let mut flood = Flood::default();
        assert_eq!(stream.receive(&mut Peer::default(), b"\x21", &mut flood), Ok(false));
        assert_eq!(stream.finish(), Ok(()));
        let mut stream = PeerStream::default();
        assert_eq!(stream.receive(&mut Peer::default(), b"\x03", &mut flood), Ok(true));
        assert_eq!(stream.finish(), Err(Error::Connection(Code::CLOSED_CRITICAL_STREAM)));
    }

    #[test]
    fn violations_are_detected() {
        let table: [(&[&[u8]], Code); 16] = [
            (&[b"\x01"], Code::STREAM_CREATION_ERROR),
            (&[b"\0\x04\0", b"\0\x04\0"], Code::STREAM_CREATION_ERROR),
            (&[b"\x02", b"\x02"], Code::STREAM_CREATION_ERROR),
            (&[b"\x03", b"\x03"], Code::STREAM_CREATION_ERROR),
            (&[b"\x02\x3f\xe1\x1f"], Code::QPACK_ENCODER_STREAM_ERROR),
            (&[b"\x03\x81"], Code::QPACK_DECODER_STREAM_ERROR),
            (&[b"\0\x0d\x01\0"], Code::MISSING_SETTINGS),
            (&[b"\0\x21\x01\0"], Code::MISSING_SETTINGS),
            (&[b"\0\x04\0\x04\0"], Code::FRAME_UNEXPECTED),
            (&[b"\0\x04\0\0\0"], Code::FRAME_UNEXPECTED),
            (&[b"\0\x04\0\x08\0"], Code::FRAME_UNEXPECTED),
            (&[b"\0\x04\x44\x01"], Code::EXCESSIVE_LOAD),
            (&[b"\0\x04\0\x0d\x02\0\0"], Code::FRAME_ERROR),
            (&[b"\0\x04\0\x0d\x01\x04\x0d\x01\x03"], Code::ID_ERROR),
            (&[b"\0\x04\0\x07\x01\x04\x07\x01\x05"], Code::ID_ERROR),
            (&[b"\0\x04\0\x03\x01\0"], Code::ID_ERROR),
        ];
        for (streams, code) in table {
            for piece in [1, 1000] {
                assert_eq!(received(streams, piece), Err(Error::Connection(code)), "{streams:?}");
            }
        }
    }
}
