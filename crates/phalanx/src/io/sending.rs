//! Sends that complete immediately, within the operation that begins them.
//!
//! A request suspends its operation until the next turn, which pays off if the sends of a cohort share a system call.
//! With few connections, or with a driver that needs a system call for each send, there is nothing to share, so the
//! operation sends immediately and continues.
//!
//! The caller keeps its bytes, because the kernel copies them during the system call. The bytes that the kernel does
//! not accept are sent by a request. The driver sends nothing immediately while a send of the same socket is in flight,
//! which preserves the order of the bytes.

use std::io::{self, IoSlice};

use bytes::Buf;
use phalanx_core::catch_panic;
use phalanx_driver::{Payload, Request, Socket};

use super::accepting::ACCEPTS_PER_SWEEP;
use super::{HomeSocket, Io, IoTimeout, RequestFuture, with_any};

/// If more requests than this are in flight, sends share system calls, if the driver supports it.
const MAX_UNSHARED_REQUESTS: usize = 16;
/// The maximum number of immediate sends in a sweep, so that an operation that only sends does not monopolise the
/// processor. They take about as long as a cohort.
const SENDS_PER_SWEEP: u32 = 64;
/// A send counts once more for each multiple of this number of bytes, which takes about as long as a small send.
const BYTES_OF_A_SEND: usize = 2 << 10;
/// The maximum size of a payload to send immediately. Larger ones would often be sent only in part.
const MAX_BYTES: usize = 16 << 10;

/// A send of a payload.
#[derive(Debug)]
pub(crate) struct SendPayload {
    pub(crate) socket: Socket,
    pub(crate) payload: Payload,
}

impl From<SendPayload> for Request {
    fn from(SendPayload { socket, payload }: SendPayload) -> Self {
        Self::Send { socket, payload }
    }
}

impl RequestFuture<SendPayload> {
    /// Sends the payload immediately, if that is cheaper than a request and no other send is in flight. If all of it
    /// was sent, returns its head, cleared. Otherwise this request remains, with the unsent bytes.
    #[inline]
    pub(crate) fn send_now(&mut self, socket: &HomeSocket) -> io::Result<Option<Vec<u8>>> {
        let Some((request, timeout)) = self.unstarted() else { return Ok(None) };
        let SendPayload { socket: number, payload } = request;
        match socket.at_once(|io| io.send_payload_now(*number, payload, timeout)) {
            Ok(None | Some(None)) => Ok(None),
            sent => {
                // The destructor of the caller's bytes may panic.
                catch_panic(|| drop(self.end()));
                sent.map(Option::flatten)
            }
        }
    }
}

impl HomeSocket {
    /// Runs `call` with the I/O of this processor, unless the connection is leaving. Returns `None` on other
    /// processors, where a request will report the error.
    #[inline]
    pub(super) fn at_once<T>(
        &self,
        call: impl FnOnce(&Io) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        with_any(|io| match io {
            Some(io) if io.home == self.home && !self.is_move_pending() => call(io).map(Some),
            _ => Ok(None),
        })
    }

    /// Sends the first bytes of `parts`, if that is cheaper than a request and no send is in flight. Returns their
    /// number.
    pub(crate) fn send_now(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send_if(parts, |io| !io.shares_sends.get())
    }

    /// Sends the first of `bytes` without considering whether they could share a system call, unless a send is in
    /// flight. Returns their number.
    pub(crate) fn send_alone(&self, bytes: &[u8]) -> io::Result<usize> {
        self.send_if(&[IoSlice::new(bytes)], |_| true)
    }

    fn send_if(
        &self,
        parts: &[IoSlice<'_>],
        is_allowed: impl FnOnce(&Io) -> bool,
    ) -> io::Result<usize> {
        let sent = self.at_once(|io| match is_allowed(io) {
            true => io.send_now(self.socket(), parts, IoTimeout::NONE),
            false => Ok(0),
        })?;
        Ok(sent.unwrap_or(0))
    }
}

impl Io {
    /// Passes the requests of a sweep to the kernel. If `has_backlog` is set, leaves completions there. Returns the
    /// number of system calls since the start.
    ///
    /// # Errors
    /// The errors of [`Driver::submit`](phalanx_driver::Driver::submit).
    pub(crate) fn submit(&self, has_backlog: bool) -> io::Result<u64> {
        let mut driver = self.driver.borrow_mut();
        if has_backlog {
            driver.submit_backlogged()?
        } else {
            driver.submit()?
        }
        let calls = driver.system_calls();
        drop(driver);
        self.begin_sweep(has_backlog);
        Ok(calls)
    }

    /// Determines which sends and accepts may complete immediately in this sweep. A processor that `has_backlog` should not
    /// begin more work, so it accepts nothing immediately.
    pub(super) fn begin_sweep(&self, has_backlog: bool) {
        let are_many = self.requests.borrow().len() > MAX_UNSHARED_REQUESTS;
        self.shares_sends.set(self.shares_calls && are_many);
        let closed = self.closed.get();
        self.immediate_sends_left.set(if closed { 0 } else { SENDS_PER_SWEEP });
        self.immediate_accepts_left.set(if closed || has_backlog { 0 } else { ACCEPTS_PER_SWEEP });
    }

    /// Sends the first bytes of `parts` immediately, unless this sweep has reached its limit of sends. Returns their
    /// number.
    pub(super) fn send_now(
        &self,
        socket: Socket,
        parts: &[IoSlice<'_>],
        timeout: IoTimeout,
    ) -> io::Result<usize> {
        let remaining = self.immediate_sends_left.get();
        let drained = timeout.ends_with_drain() && self.drain_announced.get();
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if remaining == 0 || drained || bytes == 0 || bytes > MAX_BYTES {
            return Ok(0);
        }
        self.immediate_sends_left
            .set(remaining.saturating_sub(1 + (bytes / BYTES_OF_A_SEND) as u32));
        let sent = self.try_driver(|driver| driver.send_now(socket, parts))?;
        self.placement.traffic.sent(sent);
        Ok(sent)
    }

    /// Sends `payload` immediately, if that is cheaper than a request. If all of it was sent, returns its head,
    /// cleared. Otherwise the unsent bytes remain.
    pub(super) fn send_payload_now(
        &self,
        socket: Socket,
        payload: &mut Payload,
        timeout: IoTimeout,
    ) -> io::Result<Option<Vec<u8>>> {
        if self.shares_sends.get() {
            return Ok(None);
        }
        let parts = [IoSlice::new(&payload.head), IoSlice::new(&payload.body)];
        let parts = match (payload.head.is_empty(), payload.body.is_empty()) {
            (false, true) => &parts[..1],
            (true, false) => &parts[1..],
            _ => &parts[..],
        };
        let (sent, length) = (self.send_now(socket, parts, timeout)?, payload.len());
        if sent == 0 {
            return Ok(None);
        }
        if sent < length {
            let of_head = sent.min(payload.head.len());
            payload.head.drain(..of_head);
            payload.body.advance(sent - of_head);
            return Ok(None);
        }
        let Payload { mut head, body } = std::mem::take(payload);
        if !body.is_empty() {
            catch_panic(|| drop(body));
        }
        head.clear();
        Ok(Some(head))
    }
}
