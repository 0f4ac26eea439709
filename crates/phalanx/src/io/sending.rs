//! Sends that complete in the operation that begins them.
//!
//! A request suspends its operation until the next turn, which pays if the processor has more to do meanwhile: the sends
//! of a cohort share a system call, and the code of each step stays in the cache. With few connections there is nothing to
//! share, so a send is a system call of its own, and the operation continues.

use std::io;

use bytes::Buf;
use phalanx_driver::{Done, Payload, Request};

use super::{Io, IoTimeout};
use crate::blocking::discard_panic;

/// With more requests in flight, sends are requests.
const FEW_REQUESTS: usize = 16;
/// The number of such sends in a turn, so that an operation that only sends does not keep the processor.
const SENDS_PER_TURN: u32 = 16;
/// Larger payloads would often be sent in part.
const MAX_BYTES: usize = 16 << 10;

impl Io {
    /// Determines the number of sends that may complete at once in this turn.
    pub(super) fn begin_sends(&self) {
        let few = self.requests.borrow().len() <= FEW_REQUESTS && !self.closed.get();
        self.sends_at_once.set(if few { SENDS_PER_TURN } else { 0 });
    }

    /// Sends the payload of `request` at once, if that is cheaper than a request. None if not all of it was sent; then
    /// `request` contains the rest.
    pub(super) fn send_now(
        &self,
        request: &mut Request,
        timeout: IoTimeout,
    ) -> io::Result<Option<Done>> {
        let Request::Send { socket, payload } = request else { return Ok(None) };
        let drained = timeout.ends_with_drain() && self.drain_announced.get();
        let left = self.sends_at_once.get();
        if left == 0 || drained || payload.len() > MAX_BYTES || payload.is_empty() {
            return Ok(None);
        }
        self.sends_at_once.set(left - 1);
        let sent = match self.try_driver(|driver| driver.send_now(*socket, payload)) {
            Ok(sent) => sent,
            Err(error) => {
                discard_panic(|| drop(std::mem::take(payload)));
                return Err(error);
            }
        };
        self.place.traffic.sent(sent);
        if sent == payload.len() {
            let Payload { mut head, body } = std::mem::take(payload);
            discard_panic(|| drop(body));
            head.clear();
            return Ok(Some(Done::Sent(head)));
        }
        let of_head = sent.min(payload.head.len());
        payload.head.drain(..of_head);
        payload.body.advance(sent - of_head);
        Ok(None)
    }
}
