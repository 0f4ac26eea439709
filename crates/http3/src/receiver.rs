//! The stream of a request (RFC 9114 §4.1).

use phalanx_http2::{Flood, Head, is_valid_trailer};

use crate::error::{Code, Error};
use crate::frame::{FrameHeader, Payload, is_reserved, kind};
use crate::qpack::decoder;

/// Limits of a request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest field list, in bytes (RFC 9114 §4.2.2), and the largest encoded one. For a larger list,
    /// [`Head::is_large`] is true; a larger encoded list is not stored.
    pub head: usize,
}

/// A part of a request, as received on its stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// The head of the request, always the first part.
    Head(Head),
    /// A piece of content of any size.
    Content(&'a [u8]),
}

/// Reads the stream of a request, in pieces of any size.
#[derive(Debug)]
pub struct Receiver {
    limits: Limits,
    header: FrameHeader,
    frame: Frame,
    phase: Phase,
    /// Content received, in bytes.
    content: u64,
    /// Content declared by `Content-Length`, in bytes.
    declared: Option<u64>,
}

/// The frame whose payload arrives.
#[derive(Debug)]
enum Frame {
    None,
    Fields(Payload),
    /// The remaining bytes.
    Content(u64),
    /// The remaining bytes of a frame that is ignored.
    Ignored(u64),
}

/// The part of the request that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Head,
    Content,
    /// The trailers were received.
    End,
}

impl Receiver {
    /// Starts at the beginning of a stream.
    pub fn new(limits: Limits) -> Self {
        let (header, frame, phase) = (FrameHeader::default(), Frame::None, Phase::Head);
        Self { limits, header, frame, phase, content: 0, declared: None }
    }

    /// Processes bytes from `input`, which follow those of the previous call, and counts frames. Returns `None` once
    /// all are processed.
    ///
    /// # Errors
    /// If the bytes violate the protocol. The receiver must not be used afterwards.
    pub fn receive<'a>(
        &mut self,
        input: &mut &'a [u8],
        flood: &mut Flood,
    ) -> Result<Option<Received<'a>>, Error> {
        loop {
            match &mut self.frame {
                Frame::None => {
                    let Some((kind, length)) = self.header.receive(input) else { return Ok(None) };
                    if let Some(large) = self.begin_frame(kind, length, flood)? {
                        return Ok(Some(Received::Head(large)));
                    }
                }
                Frame::Fields(payload) => {
                    let (consumed, section) = payload.receive(input);
                    *input = &input[consumed..];
                    let Some(section) = section else { return Ok(None) };
                    let head = match self.phase {
                        Phase::Head => Some(decode_head(section, self.limits.head)?),
                        _ => decode_trailers(section).map(|()| None)?,
                    };
                    self.frame = Frame::None;
                    let Some(head) = head else {
                        self.phase = Phase::End;
                        continue;
                    };
                    self.phase = Phase::Content;
                    self.declared = head.content_length();
                    return Ok(Some(Received::Head(head)));
                }
                Frame::Content(0) | Frame::Ignored(0) => self.frame = Frame::None,
                Frame::Content(_) | Frame::Ignored(_) if input.is_empty() => return Ok(None),
                Frame::Content(left) => {
                    let content = take(input, left);
                    self.content += content.len() as u64;
                    if self.declared.is_some_and(|declared| declared < self.content) {
                        return Err(Error::Stream(Code::MESSAGE_ERROR));
                    }
                    return Ok(Some(Received::Content(content)));
                }
                Frame::Ignored(left) => {
                    take(input, left);
                }
            }
        }
    }

    /// Starts a frame. Returns a head that is larger than the limit.
    fn begin_frame(
        &mut self,
        kind: u64,
        length: u64,
        flood: &mut Flood,
    ) -> Result<Option<Head>, Error> {
        let unexpected = Err(Error::Connection(Code::FRAME_UNEXPECTED));
        let limit = self.limits.head as u64;
        self.frame = match (kind, self.phase) {
            (kind::DATA, Phase::Content) => {
                flood.content(length);
                Frame::Content(length)
            }
            (kind::HEADERS, Phase::Head) if length > limit => {
                self.phase = Phase::Content;
                self.frame = Frame::Ignored(length);
                return Ok(Some(Head::large()));
            }
            (kind::HEADERS, Phase::Content) if length > limit => {
                return Err(Error::Stream(Code::EXCESSIVE_LOAD));
            }
            (kind::HEADERS, Phase::Head | Phase::Content) => {
                Frame::Fields(Payload::new(length, self.limits.head)?)
            }
            (kind::DATA | kind::HEADERS, _) => return unexpected,
            // Frames of other streams, and those that only servers send.
            (
                kind::CANCEL_PUSH
                | kind::SETTINGS
                | kind::PUSH_PROMISE
                | kind::GOAWAY
                | kind::MAX_PUSH_ID,
                _,
            ) => return unexpected,
            (kind, _) if is_reserved(kind) => return unexpected,
            // RFC 9114 §9.
            _ => {
                flood.idle(1);
                Frame::Ignored(length)
            }
        };
        Ok(None)
    }

    /// Records the end of the stream.
    ///
    /// # Errors
    /// If the request is not complete.
    pub fn finish(&self) -> Result<(), Error> {
        if self.header.is_partial()
            || !matches!(self.frame, Frame::None | Frame::Content(0) | Frame::Ignored(0))
        {
            return Err(Error::Connection(Code::FRAME_ERROR));
        }
        match self.declared {
            _ if self.phase == Phase::Head => Err(Error::Stream(Code::REQUEST_INCOMPLETE)),
            Some(declared) if declared != self.content => Err(Error::Stream(Code::MESSAGE_ERROR)),
            _ => Ok(()),
        }
    }
}

/// Takes as many of `left` bytes from `input` as it has.
fn take<'a>(input: &mut &'a [u8], remaining: &mut u64) -> &'a [u8] {
    let length = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.len());
    let (taken, rest) = input.split_at(length);
    *input = rest;
    *remaining -= length as u64;
    taken
}

fn decode_head(section: &[u8], limit: usize) -> Result<Head, Error> {
    let mut head = Head::default();
    decoder::decode(section, |name, value| head.push(name, value, limit))
        .map_err(|_| Error::Connection(Code::QPACK_DECOMPRESSION_FAILED))?;
    if head.is_valid() { Ok(head) } else { Err(Error::Stream(Code::MESSAGE_ERROR)) }
}

/// Trailers are validated and discarded.
fn decode_trailers(section: &[u8]) -> Result<(), Error> {
    let mut valid = true;
    decoder::decode(section, |name, value| valid &= is_valid_trailer(name, value))
        .map_err(|_| Error::Connection(Code::QPACK_DECOMPRESSION_FAILED))?;
    if valid { Ok(()) } else { Err(Error::Stream(Code::MESSAGE_ERROR)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::encoder;

    const LIMITS: Limits = Limits { head: 400 };

    /// A request's head with these fields in addition to those of GET.
    fn head(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        encoder::head(&mut out, |block| {
            let get =
                [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "h")];
            for (name, value) in get.iter().chain(fields) {
                phalanx_http2::encoder::field(block, name.as_bytes(), value.as_bytes());
            }
        });
        out
    }

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        [&[kind, payload.len() as u8], payload].concat()
    }

    /// The heads and the content of a stream that arrives in pieces of `piece` bytes.
    fn received(stream: &[u8], piece: usize) -> Result<(Vec<String>, Vec<u8>), Error> {
        let (mut receiver, mut heads, mut content) =
            (Receiver::new(LIMITS), Vec::new(), Vec::new());
        let mut flood = Flood::default();
        for mut input in stream.chunks(piece) {
            while let Some(received) = receiver.receive(&mut input, &mut flood)? {
                match received {
                    Received::Head(head) => heads.push(format!("{head:?}")),
                    Received::Content(piece) => content.extend_from_slice(piece),
                }
            }
            assert!(input.is_empty());
        }
        receiver.finish()?;
        Ok((heads, content))
    }

    #[test]
    fn requests_are_received() {
        let unknown = frame(0x21, b"ignored");
        let long = head(&[("content-length", "5")]);
        let stream = [
            &unknown[..],
            &long,
            &frame(0, b"con"),
            &frame(0, b""),
            &unknown,
            &frame(0, b"te"),
            &{
                let mut trailers = Vec::new();
                encoder::head(&mut trailers, |block| {
                    phalanx_http2::encoder::field(block, b"a", b"b");
                });
                trailers
            },
            &unknown,
        ]
        .concat();
        let whole = received(&stream, stream.len()).unwrap();
        assert_eq!((whole.0.len(), &whole.1[..]), (1, &b"conte"[..]));
        for piece in 1..stream.len() {
            assert_eq!(received(&stream, piece).unwrap(), whole);
        }
    }

    #[test]
    fn violations_are_detected() {
        use Error::{Connection, Stream};
        let trailers = head(&[]);
        let get = head(&[]);
        let with_request = |rest: &[u8]| [&get[..], rest].concat();
        let large = head(&[("a", &"#".repeat(500))]);
        let mut table = vec![
            (frame(0, b"x"), Connection(Code::FRAME_UNEXPECTED), "content before the head"),
            (
                with_request(&trailers),
                Stream(Code::MESSAGE_ERROR),
                "pseudo-header fields in trailers",
            ),
            (vec![], Stream(Code::REQUEST_INCOMPLETE), "no head"),
            (get[..get.len() - 1].to_vec(), Connection(Code::FRAME_ERROR), "a partial head"),
            (with_request(&[0]), Connection(Code::FRAME_ERROR), "a partial frame header"),
            (with_request(&[0, 2, b'x']), Connection(Code::FRAME_ERROR), "a partial frame"),
            (
                with_request(&[&frame(1, b"\0\0")[..], &frame(0, b"x")].concat()),
                Connection(Code::FRAME_UNEXPECTED),
                "content behind trailers",
            ),
            (
                with_request(&frame(1, b"\0\0").repeat(2)),
                Connection(Code::FRAME_UNEXPECTED),
                "trailers twice",
            ),
            (with_request(&large), Stream(Code::EXCESSIVE_LOAD), "large trailers"),
            (frame(1, b"\x01\0"), Connection(Code::QPACK_DECOMPRESSION_FAILED), "a dynamic table"),
            (frame(1, b"\0\0\xd1"), Stream(Code::MESSAGE_ERROR), "a method only"),
            (
                [&head(&[("content-length", "2")])[..], &frame(0, b"xyz")].concat(),
                Stream(Code::MESSAGE_ERROR),
                "more than declared",
            ),
            (
                [&head(&[("content-length", "2")])[..], &frame(0, b"x")].concat(),
                Stream(Code::MESSAGE_ERROR),
                "less than declared",
            ),
        ];
        for kind in [0x2, 0x3, 0x4, 0x5, 0x6, 0x7, 0x8, 0x9, 0xd] {
            table.push((
                with_request(&frame(kind, b"\0")),
                Connection(Code::FRAME_UNEXPECTED),
                "another stream's frame",
            ));
        }
        for (stream, error, reason) in table {
            for piece in [1, 2, 1000] {
                assert_eq!(received(&stream, piece), Err(error), "{reason}");
            }
        }
    }

    #[test]
    fn large_heads_are_not_stored() {
        // The list is large, and then also its encoding.
        for length in [220, 500] {
            let stream =
                [&head(&[("a", &"#".repeat(length)), ("b", "c")])[..], &frame(0, b"x")].concat();
            for piece in [1, 1000] {
                let (heads, content) = received(&stream, piece).unwrap();
                assert!(heads.len() == 1 && heads[0].contains("is_large: true"), "{heads:?}");
                assert_eq!(content, b"x");
            }
        }
    }

    proptest! {
        #[test]
        fn the_result_does_not_depend_on_the_division(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            begins in any::<bool>(),
            piece in 1_usize..20,
        ) {
            let stream = if begins { [head(&[]), bytes].concat() } else { bytes };
            prop_assert_eq!(received(&stream, piece), received(&stream, 1000));
        }
    }
}
