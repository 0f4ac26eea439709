//! HEADERS and CONTINUATION (RFC 9113 §6.2, §6.10): requests and trailers.

use super::{Connection, End, Request};
use crate::error::{Code, Error};
use crate::flood::Excess;
use crate::frame::{self, Frame, flag};
use crate::head::Trailers;
use crate::hpack::decoder::Invalid;
use crate::streams::{Absent, Stream};
use crate::window::{ReceiveWindow, SendWindow};

/// Largest field block, in bytes, unless the limit for a decoded request is larger. An encoded block is never longer
/// than the size that this limit counts.
const MAX_BLOCK_BYTES: usize = 128 * 1024;
/// Length of the deprecated priority fields of a HEADERS frame.
const PRIORITY_LENGTH: usize = 5;

/// A field block that is not complete.
pub(super) struct Block {
    stream: u32,
    ends_stream: bool,
    /// Whether the stream depends on itself.
    is_circular: bool,
    bytes: Vec<u8>,
}

impl Connection {
    pub(super) fn headers(
        &mut self,
        frame: &Frame,
        payload: &[u8],
    ) -> Result<Option<Request>, Error> {
        // RFC 9113 §5.1.1: clients use odd identifiers.
        if frame.stream.is_multiple_of(2) {
            return Err(Error::Connection(Code::PROTOCOL_ERROR));
        }
        let mut fields = frame::without_padding(frame, payload)
            .ok_or(Error::Connection(Code::PROTOCOL_ERROR))?;
        let mut is_circular = false;
        if frame.has(flag::PRIORITY) {
            let (priority, rest) = fields
                .split_first_chunk::<PRIORITY_LENGTH>()
                .ok_or(Error::Connection(Code::FRAME_SIZE_ERROR))?;
            is_circular = dependency(priority) == frame.stream;
            fields = rest;
        }
        let ends_stream = frame.has(flag::END_STREAM);
        if frame.has(flag::END_HEADERS) {
            return self.fields(frame.stream, ends_stream, is_circular, fields);
        }
        let bytes = fields.to_vec();
        self.block = Some(Block { stream: frame.stream, ends_stream, is_circular, bytes });
        Ok(None)
    }

    pub(super) fn continuation(
        &mut self,
        frame: &Frame,
        payload: &[u8],
    ) -> Result<Option<Request>, Error> {
        let Some(mut block) = self.block.take().filter(|block| block.stream == frame.stream) else {
            return Err(Error::Connection(Code::PROTOCOL_ERROR));
        };
        if block.bytes.len() + payload.len() > self.limits.head.max(MAX_BLOCK_BYTES) {
            self.flood.report(Excess::FieldBlock);
            return Ok(None);
        }
        block.bytes.extend_from_slice(payload);
        if frame.has(flag::END_HEADERS) {
            let Block { stream, ends_stream, is_circular, bytes } = block;
            return self.fields(stream, ends_stream, is_circular, &bytes);
        }
        self.block = Some(block);
        Ok(None)
    }

    /// Processes a complete field block. It is decoded even if the request is refused, because the decoder's table
    /// depends on it.
    fn fields(
        &mut self,
        id: u32,
        ends_stream: bool,
        is_circular: bool,
        block: &[u8],
    ) -> Result<Option<Request>, Error> {
        if let Some(stream) = self.streams.get(id) {
            let is_receiving = stream.is_receiving;
            return self.request_trailers(id, is_receiving, ends_stream, block);
        }
        let mut head = self.heads.pop().unwrap_or_default();
        let limit = self.limits.head;
        if let Err(Invalid) = self.decoder.decode(block, |field| head.add(field, limit)) {
            return self.undecoded(head.is_excessive(limit));
        }
        if head.is_large() {
            self.flood.costly(1, Excess::FieldBlock);
        }
        match self.streams.absent(id) {
            Absent::Idle => (),
            Absent::Skipped => return Err(Error::Connection(Code::PROTOCOL_ERROR)),
            Absent::Reset => return Ok(None),
            Absent::Closed => return Err(Error::Connection(Code::STREAM_CLOSED)),
            Absent::Forgotten => return Err(Error::Stream(id, Code::STREAM_CLOSED)),
        }
        self.streams.used(id);
        if let End::Leaving(_) = self.end {
            // GOAWAY has announced that the server does not process such streams (RFC 9113 §6.8).
            self.streams.mark_reset(id);
            return Ok(None);
        }
        if is_circular || !head.is_valid() || ends_stream && head.content_length().unwrap_or(0) > 0
        {
            self.recycle(head);
            return Err(Error::Stream(id, Code::PROTOCOL_ERROR));
        }
        if self.streams.len() >= self.limits.streams as usize {
            return Err(Error::Stream(id, Code::REFUSED_STREAM));
        }
        self.streams.open(Stream {
            id,
            send_window: SendWindow(self.peer.initial_window),
            receive_window: ReceiveWindow::new(),
            is_receiving: !ends_stream,
            is_answered: false,
            is_queued: false,
            received: 0,
            expected: head.content_length(),
            content: Vec::new(),
            discards: false,
            waker: None,
        });
        Ok(Some(Request { stream: id, head, has_body: !ends_stream }))
    }

    /// Processes the fields after a request's content (RFC 9113 §8.1).
    fn request_trailers(
        &mut self,
        id: u32,
        is_receiving: bool,
        ends_stream: bool,
        block: &[u8],
    ) -> Result<Option<Request>, Error> {
        let (mut trailers, limit) = (Trailers::default(), self.limits.head);
        if let Err(Invalid) = self.decoder.decode(block, |field| trailers.add(field, limit)) {
            return self.undecoded(trailers.is_excessive(limit));
        }
        if trailers.is_larger_than(limit) {
            self.flood.costly(1, Excess::FieldBlock);
        }
        if !is_receiving {
            return Err(Error::Stream(id, Code::STREAM_CLOSED));
        }
        if !ends_stream || !trailers.is_valid() {
            return Err(Error::Stream(id, Code::PROTOCOL_ERROR));
        }
        self.end_content(id)?;
        Ok(None)
    }

    /// Ends the connection, because its decoder can no longer be used.
    #[cold]
    fn undecoded(&mut self, is_excessive: bool) -> Result<Option<Request>, Error> {
        if is_excessive {
            self.flood.report(Excess::FieldBlock);
            return Ok(None);
        }
        Err(Error::Connection(Code::COMPRESSION_ERROR))
    }

    /// PRIORITY (RFC 9113 §6.3) is validated and ignored.
    pub(super) fn priority(
        &mut self,
        frame: &Frame,
        payload: &[u8],
    ) -> Result<Option<Request>, Error> {
        if frame.stream == 0 {
            return Err(Error::Connection(Code::PROTOCOL_ERROR));
        }
        match payload.try_into() {
            Ok(priority) if dependency(priority) == frame.stream => {
                Err(Error::Stream(frame.stream, Code::PROTOCOL_ERROR))
            }
            Ok(_) => Ok(None),
            Err(_) => Err(Error::Stream(frame.stream, Code::FRAME_SIZE_ERROR)),
        }
    }
}

/// The stream on which another depends, in deprecated priority fields.
fn dependency(&[a, b, c, d, _]: &[u8; PRIORITY_LENGTH]) -> u32 {
    u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff
}
