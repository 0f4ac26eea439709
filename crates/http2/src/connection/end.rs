//! Resets, connection errors and graceful shutdown.

use super::{Connection, End};
use crate::error::Code;
use crate::frame::{self, kind};
use crate::streams::wake;

/// Content of the PING whose response shows that the client has received the first GOAWAY.
pub(super) const SHUTDOWN_PING: &[u8; 8] = b"shutdown";
/// Last stream in the first GOAWAY of a graceful shutdown: all (RFC 9113 §6.8).
const ALL_STREAMS: u32 = 0x7fff_ffff;

impl Connection {
    /// Resets a stream. Has no effect on a stream that has ended or that the client has reset: RST_STREAM must not
    /// answer RST_STREAM (RFC 9113 §5.4.2).
    pub fn reset(&mut self, stream: u32, code: Code) {
        if self.streams.get(stream).is_some() {
            self.send_reset(stream, code);
        }
    }

    /// Resets a stream, which may be closed. The reset counts towards the flood limits.
    pub(super) fn send_reset(&mut self, stream: u32, code: Code) {
        self.close(stream);
        self.streams.mark_reset(stream);
        frame::write(&mut self.out, kind::RST_STREAM, 0, stream, &code.0.to_be_bytes());
        self.flood.reset();
        self.wake_sender();
    }

    /// Starts a graceful shutdown (RFC 9113 §6.8): a first GOAWAY announces it, and requests that the client sent
    /// before it received the GOAWAY are still answered. When the client has responded to a PING, the last GOAWAY is
    /// sent.
    pub fn shut_down(&mut self) {
        if self.end == End::Open {
            self.end = End::Announced;
            self.write_goaway(ALL_STREAMS, Code::NO_ERROR);
            frame::write(&mut self.out, kind::PING, 0, 0, SHUTDOWN_PING);
            self.wake_sender();
        }
    }

    /// Whether the current output is the last: the connection has failed, or it is shutting down and all its streams
    /// have ended.
    pub fn has_ended(&self) -> bool {
        match self.end {
            End::Failed => true,
            End::Leaving(_) => self.streams.len() == 0,
            End::Open | End::Announced => self.peer_leaves && self.streams.len() == 0,
        }
    }

    /// Sends the last GOAWAY.
    pub(super) fn leave(&mut self) {
        let last = self.streams.last();
        self.end = End::Leaving(last);
        self.write_goaway(last, Code::NO_ERROR);
    }

    /// Ends all streams, because the client has disconnected.
    pub fn disconnect(&mut self) {
        self.end = End::Failed;
        self.block = None;
        self.queue.clear();
        self.streams.clear();
    }

    /// Ends the connection with an error (RFC 9113 §5.4.1).
    pub(super) fn fail(&mut self, code: Code) {
        self.disconnect();
        self.write_goaway(self.streams.last(), code);
        self.wake_sender();
    }

    /// Removes a stream from the table.
    pub(super) fn close(&mut self, stream: u32) {
        let Some(state) = self.streams.remove(stream) else { return };
        wake(state.waker);
        if state.is_queued {
            self.queue.retain(|queued| *queued != stream);
            self.wake_next();
        }
    }

    fn write_goaway(&mut self, last: u32, code: Code) {
        let [a, b, c, d] = last.to_be_bytes();
        let [e, f, g, h] = code.0.to_be_bytes();
        frame::write(&mut self.out, kind::GOAWAY, 0, 0, &[a, b, c, d, e, f, g, h]);
    }
}
