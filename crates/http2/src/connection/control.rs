//! Frames that concern the connection, and WINDOW_UPDATE and RST_STREAM.

use super::end::SHUTDOWN_PING;
use super::{Connection, End, Request};
use crate::error::{Code, Error};
use crate::frame::{self, Frame, flag, kind};
use crate::streams::{Absent, wake};

const PROTOCOL_ERROR: Error = Error::Connection(Code::PROTOCOL_ERROR);
const FRAME_SIZE_ERROR: Error = Error::Connection(Code::FRAME_SIZE_ERROR);

impl Connection {
    /// SETTINGS (RFC 9113 §6.5).
    pub(super) fn settings(
        &mut self,
        frame: &Frame,
        payload: &[u8],
    ) -> Result<Option<Request>, Error> {
        let is_ack = frame.has(flag::ACK);
        if frame.stream != 0 {
            return Err(PROTOCOL_ERROR);
        }
        if is_ack && frame.length > 0 || !frame.length.is_multiple_of(6) {
            return Err(FRAME_SIZE_ERROR);
        }
        if is_ack {
            return Ok(None);
        }
        let before = self.peer.initial_window;
        self.peer.apply(payload)?;
        // Both are at least zero, so this does not overflow.
        let by = self.peer.initial_window - before;
        if by != 0 {
            for stream in self.streams.iter_mut() {
                stream.send_window.add(by).ok_or(Error::Connection(Code::FLOW_CONTROL_ERROR))?;
                if !stream.is_queued && stream.send_window.available() > 0 {
                    wake(stream.waker.take());
                }
            }
        }
        if by < 0 {
            self.dequeue_closed();
        }
        frame::write(&mut self.out, kind::SETTINGS, flag::ACK, 0, &[]);
        Ok(None)
    }

    /// PING (RFC 9113 §6.7).
    pub(super) fn ping(&mut self, frame: &Frame, payload: &[u8]) -> Result<Option<Request>, Error> {
        if frame.stream != 0 {
            return Err(PROTOCOL_ERROR);
        }
        if frame.length != 8 {
            return Err(FRAME_SIZE_ERROR);
        }
        if !frame.has(flag::ACK) {
            frame::write(&mut self.out, kind::PING, flag::ACK, 0, payload);
        } else if payload == SHUTDOWN_PING && self.end == End::Announced {
            self.leave();
        }
        Ok(None)
    }

    /// GOAWAY (RFC 9113 §6.8).
    pub(super) fn goaway(
        &mut self,
        frame: &Frame,
        payload: &[u8],
    ) -> Result<Option<Request>, Error> {
        if frame.stream != 0 {
            return Err(PROTOCOL_ERROR);
        }
        if payload.len() < 8 {
            return Err(FRAME_SIZE_ERROR);
        }
        self.peer_leaves = true;
        Ok(None)
    }

    /// WINDOW_UPDATE (RFC 9113 §6.9).
    pub(super) fn window_update(
        &mut self,
        frame: &Frame,
        payload: &[u8],
    ) -> Result<Option<Request>, Error> {
        let bytes = payload.try_into().map_err(|_| FRAME_SIZE_ERROR)?;
        let by = i32::from_be_bytes(bytes) & i32::MAX;
        let id = frame.stream;
        if id == 0 {
            if by == 0 {
                return Err(PROTOCOL_ERROR);
            }
            self.send_window.add(by).ok_or(Error::Connection(Code::FLOW_CONTROL_ERROR))?;
            self.wake_next();
            return Ok(None);
        }
        let Some(stream) = self.streams.get(id) else {
            return match self.streams.absent(id) {
                Absent::Idle => Err(PROTOCOL_ERROR),
                _ => Ok(None),
            };
        };
        if by == 0 {
            return Err(Error::Stream(id, Code::PROTOCOL_ERROR));
        }
        let was_closed = stream.send_window.available() == 0;
        stream.send_window.add(by).ok_or(Error::Stream(id, Code::FLOW_CONTROL_ERROR))?;
        if was_closed && stream.send_window.available() > 0 {
            wake(stream.waker.take());
        }
        Ok(None)
    }

    /// RST_STREAM (RFC 9113 §6.4).
    pub(super) fn rst_stream(
        &mut self,
        frame: &Frame,
        payload: &[u8],
    ) -> Result<Option<Request>, Error> {
        if payload.len() != 4 {
            return Err(FRAME_SIZE_ERROR);
        }
        if frame.stream == 0 || self.streams.get(frame.stream).is_none() {
            return match self.streams.absent(frame.stream) {
                Absent::Idle => Err(PROTOCOL_ERROR),
                _ => Ok(None),
            };
        }
        self.close(frame.stream);
        Ok(None)
    }
}
