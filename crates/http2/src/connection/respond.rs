//! Response heads and content, within the client's windows.
//!
//! Streams share the connection's window and the output buffer. Streams that wait for them take turns of one
//! frame each, so that a large response does not delay the others.

use std::task::{Context, Poll};

use super::Connection;
use crate::error::{Closed, Code};
use crate::frame::{Frame, HEADER_LENGTH, flag, kind};
use crate::settings::MAX_FRAME_SIZE;
use crate::streams::wake;

/// Output above which no further content is accepted, in bytes.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

impl Connection {
    /// Sends the head of a stream's response; `write` appends its field block (see
    /// [`encoder`](crate::encoder)). `end` ends the stream.
    ///
    /// # Errors
    /// If the stream has ended.
    ///
    /// # Panics
    /// If the head was already sent.
    pub fn respond(
        &mut self,
        stream: u32,
        end: bool,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Closed> {
        let state = self.streams.get(stream).ok_or(Closed)?;
        assert!(!state.is_answered, "a stream has one response");
        state.is_answered = true;
        self.write_head(stream, if end { flag::END_STREAM } else { 0 }, write);
        self.flood.answered();
        if end {
            self.end_stream(stream);
        }
        Ok(())
    }

    /// Sends the head of an interim response, which does not end the stream (RFC 9113 §8.1).
    ///
    /// # Errors
    /// If the stream has ended.
    ///
    /// # Panics
    /// If the head of the final response was already sent.
    pub fn interim(&mut self, stream: u32, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Closed> {
        let state = self.streams.get(stream).ok_or(Closed)?;
        assert!(!state.is_answered, "interim responses precede the final one");
        self.write_head(stream, 0, write);
        Ok(())
    }

    /// Ends a stream's response with a trailer section (RFC 9113 §8.1); `write` appends its field block. All content
    /// must be sent.
    ///
    /// # Errors
    /// If the stream has ended.
    ///
    /// # Panics
    /// If the head was not sent.
    pub fn trailers(
        &mut self,
        stream: u32,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Closed> {
        let state = self.streams.get(stream).ok_or(Closed)?;
        assert!(state.is_answered, "trailers follow the content");
        self.write_head(stream, flag::END_STREAM, write);
        self.end_stream(stream);
        Ok(())
    }

    fn write_head(&mut self, stream: u32, flags: u8, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_LENGTH]);
        if std::mem::take(&mut self.peer.resets_table) {
            // The table has size zero (RFC 7541 §6.3).
            self.out.push(0x20);
        }
        write(&mut self.out);
        let length = self.out.len() - start - HEADER_LENGTH;
        if length <= self.peer.max_frame_size {
            let flags = flags | flag::END_HEADERS;
            let frame = Frame { length, kind: kind::HEADERS, flags, stream };
            self.out[start..start + HEADER_LENGTH].copy_from_slice(&frame.bytes());
        } else {
            self.split_block(start, flags, stream);
        }
        self.wake_sender();
    }

    /// Splits a block that starts at `start` in the output into several frames.
    #[cold]
    fn split_block(&mut self, start: usize, flags: u8, stream: u32) {
        let block = self.out.split_off(start);
        let mut pieces = block[HEADER_LENGTH..].chunks(self.peer.max_frame_size).peekable();
        let (mut kind, mut flags) = (kind::HEADERS, flags);
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_none() {
                flags |= flag::END_HEADERS;
            }
            crate::frame::write(&mut self.out, kind, flags, stream, piece);
            (kind, flags) = (kind::CONTINUATION, 0);
        }
    }

    /// Sends content, as much as the windows and the output buffer permit. Returns the number of bytes, which may be
    /// zero; for the rest, the caller waits with [`poll_room`](Self::poll_room). `end` ends the stream after the last
    /// byte of `content`.
    ///
    /// # Errors
    /// If the stream has ended.
    pub fn send(&mut self, stream: u32, content: &[u8], end: bool) -> Result<usize, Closed> {
        let room = self.room(stream).ok_or(Closed)?;
        let length = room.min(content.len());
        if length == 0 && !(end && content.is_empty()) {
            return Ok(0);
        }
        let (mut rest, ends) = (&content[..length], end && length == content.len());
        loop {
            let (piece, remaining) = rest.split_at(rest.len().min(MAX_FRAME_SIZE));
            let flags = if ends && remaining.is_empty() { flag::END_STREAM } else { 0 };
            crate::frame::write(&mut self.out, kind::DATA, flags, stream, piece);
            rest = remaining;
            if rest.is_empty() {
                break;
            }
        }
        self.send_window.sent(length);
        self.flood.sent(length);
        if let Some(state) = self.streams.get(stream) {
            state.send_window.sent(length);
            if std::mem::take(&mut state.is_queued) {
                self.queue.retain(|queued| *queued != stream);
            }
        }
        if ends {
            self.end_stream(stream);
        }
        self.wake_next();
        self.wake_sender();
        Ok(length)
    }

    /// Waits until [`send`](Self::send) accepts content.
    ///
    /// # Errors
    /// If the stream has ended.
    pub fn poll_room(
        &mut self,
        context: &mut Context<'_>,
        stream: u32,
    ) -> Poll<Result<(), Closed>> {
        match self.room(stream) {
            None => return Poll::Ready(Err(Closed)),
            Some(1..) => return Poll::Ready(Ok(())),
            Some(0) => (),
        }
        let Some(state) = self.streams.get(stream) else { return Poll::Ready(Err(Closed)) };
        state.waker = Some(context.waker().clone());
        if state.send_window.available() > 0 && !std::mem::replace(&mut state.is_queued, true) {
            self.queue.push_back(stream);
        }
        Poll::Pending
    }

    /// Waits until the stream has ended: the client has reset it, or the connection has ended.
    pub fn poll_closed(&mut self, context: &mut Context<'_>, stream: u32) -> Poll<()> {
        let Some(state) = self.streams.get(stream) else { return Poll::Ready(()) };
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Waits until there is output. One caller may wait.
    pub fn poll_output(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.out.is_empty() {
            return Poll::Ready(());
        }
        self.sender = Some(context.waker().clone());
        Poll::Pending
    }

    /// Takes the output, for the caller to send. `memory` is used for further output.
    pub fn take_output(&mut self, mut memory: Vec<u8>) -> Vec<u8> {
        memory.clear();
        let output = std::mem::replace(&mut self.out, memory);
        self.wake_next();
        output
    }

    /// Length of the output, in bytes. The caller should not process more input while much output is unsent, because
    /// nothing else bounds the responses to received frames.
    pub fn output_len(&self) -> usize {
        self.out.len()
    }

    /// Content that a stream may send now, in bytes. Returns `None` if it has ended.
    fn room(&mut self, stream: u32) -> Option<usize> {
        let shared = self.shared_room();
        let state = self.streams.get(stream)?;
        let room = state.send_window.available().min(shared);
        Some(match self.queue.front() {
            None => room,
            Some(front) if *front == stream => room.min(MAX_FRAME_SIZE),
            Some(_) => 0,
        })
    }

    /// Content that the connection's window and the output buffer permit.
    fn shared_room(&self) -> usize {
        let buffer = MAX_OUTPUT_BYTES.saturating_sub(self.out.len());
        self.send_window.available().min(buffer)
    }

    /// Removes streams whose own windows have closed from the queue, because nothing would be sent while they are at
    /// its front. They are queued again when their windows open.
    pub(super) fn dequeue_closed(&mut self) {
        let streams = &mut self.streams;
        self.queue.retain(|id| {
            let Some(stream) = streams.get(*id) else { return false };
            stream.is_queued = stream.send_window.available() > 0;
            stream.is_queued
        });
        self.wake_next();
    }

    /// Wakes the stream whose turn it is, if there is room.
    pub(super) fn wake_next(&mut self) {
        if self.shared_room() > 0
            && let Some(next) = self.queue.front()
            && let Some(stream) = self.streams.get(*next)
        {
            wake(stream.waker.take());
        }
    }

    pub(super) fn wake_sender(&mut self) {
        wake(self.sender.take());
    }

    /// Ends the server's side of a stream. RST_STREAM stops a client that is still sending content (RFC 9113 §8.1).
    fn end_stream(&mut self, stream: u32) {
        match self.streams.get(stream) {
            Some(state) if state.is_receiving => self.reset(stream, Code::NO_ERROR),
            _ => self.close(stream),
        }
    }
}
