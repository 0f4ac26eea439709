//! MQTT over WebSocket (MQTT 5 §6): packets in binary messages.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::time::now;
use phalanx_tls::Wire;
use phalanx_websocket::{Code, Decoder, MAX_HEAD, Upgrade, UpgradeError, binary, close};

use crate::transport::outbox::Outbox;

/// The subprotocol (MQTT 5 §6).
const PROTOCOL: &str = "mqtt";
/// Maximum size of unsent pongs, in bytes; further pings are not answered.
const MAX_QUEUED_ANSWERS: usize = 4096;

/// The server side of a WebSocket.
pub(crate) struct WebSocket {
    below: Wire,
    decoder: RefCell<Decoder>,
    /// Input received with the upgrade request.
    early: RefCell<Vec<u8>>,
    /// Pongs and the close frame, sent by the next write.
    answers: RefCell<Vec<u8>>,
    /// Whether the close frame was queued.
    closing: Cell<bool>,
    /// Wakes the sender. `None` before it has started; the reader then writes.
    sender: RefCell<Option<Rc<Outbox>>>,
}

/// Upgrades a connection if the client requests it and its origin is allowed. `limit` is the timeout of the
/// upgrade.
///
/// # Errors
/// The reason, and the connection of a client whose request was refused with a response; `None` if the client is gone.
pub(crate) async fn upgrade(
    below: Wire,
    origins: &[String],
    limit: Duration,
) -> Result<WebSocket, (String, Option<Wire>)> {
    let (begun, mut input) = (now(), Vec::new());
    let (accept, length) = loop {
        let timeout = IoTimeout::after(limit.saturating_sub(now() - begun)).until_shutdown();
        let allowed = |upgrade: &Upgrade<'_>| match upgrade.origin {
            None => true,
            Some(origin) => origins.iter().any(|allowed| allowed == "*" || allowed == origin),
        };
        let (refused, reason) = match Upgrade::read(&input, PROTOCOL) {
            Ok(Some(upgrade)) if allowed(&upgrade) => break (upgrade.accept, upgrade.length),
            Ok(Some(upgrade)) => {
                let origin = upgrade.origin.unwrap_or_default();
                (UpgradeError::ORIGIN, format!("the origin {origin} is not in allowed-origins"))
            }
            Err(refused) => (refused, refused.to_string()),
            Ok(None) => match below.read(&mut input, timeout).await {
                Ok(1..) => continue,
                Ok(0) => return Err(("the client closed the connection".to_owned(), None)),
                Err(error) => return Err((error.to_string(), None)),
            },
        };
        let _ = below.write(refused.answer(), timeout).await;
        return Err((reason, Some(below)));
    };
    debug_assert!(length <= MAX_HEAD);
    let left = limit.saturating_sub(now() - begun);
    let written = below.write(accept, IoTimeout::after(left)).await;
    written.map_err(|error| (error.to_string(), None))?;
    input.drain(..length);
    Ok(WebSocket {
        below,
        decoder: RefCell::default(),
        early: RefCell::new(input),
        answers: RefCell::default(),
        closing: Cell::new(false),
        sender: RefCell::default(),
    })
}

impl WebSocket {
    pub(super) fn wire(&self) -> &Wire {
        &self.below
    }

    pub(super) fn has_own_packets(&self) -> bool {
        !self.answers.borrow().is_empty()
    }

    pub(super) fn set_outbox(&self, outbox: Rc<Outbox>) {
        self.sender.replace(Some(outbox));
    }

    pub(super) async fn read(&self, buffer: &mut Vec<u8>, timeout: IoTimeout) -> io::Result<usize> {
        let (before, begun) = (buffer.len(), now());
        let mut raw = self.early.take();
        while buffer.len() == before {
            if self.decoder.borrow().is_closed() {
                return Ok(0);
            }
            // Only data extends the timeout; control frames do not.
            let timeout = timeout.remaining(now() - begun);
            if raw.is_empty() && Box::pin(self.below.read(&mut raw, timeout)).await? == 0 {
                return Ok(0);
            }
            self.take(&raw, buffer);
            raw.clear();
            if self.has_own_packets() {
                let sender = self.sender.borrow().clone();
                match sender {
                    Some(sender) => sender.nudge(),
                    None => drop(Box::pin(self.write(Vec::new(), timeout)).await?),
                }
            }
        }
        Ok(buffer.len() - before)
    }

    fn take(&self, raw: &[u8], buffer: &mut Vec<u8>) {
        let mut decoder = self.decoder.borrow_mut();
        let mut answers = self.answers.borrow_mut();
        let before = answers.len();
        // A violation queues a close frame with the reason.
        let _ = decoder.feed(raw, buffer, &mut answers);
        match decoder.is_closed() {
            // No frame may follow the close frame.
            true if self.closing.get() => answers.truncate(before),
            true => self.closing.set(true),
            false if before > MAX_QUEUED_ANSWERS => answers.truncate(before),
            false => (),
        }
    }

    /// Sends queued control frames, and `bytes` as a message if not empty.
    pub(super) async fn write(
        &self,
        mut bytes: Vec<u8>,
        timeout: IoTimeout,
    ) -> io::Result<Vec<u8>> {
        let mut before = self.answers.take();
        if self.closing.get() {
            // No message may follow the close frame.
            bytes.clear();
        }
        if !bytes.is_empty() {
            binary(bytes.len(), &mut before);
        }
        bytes.splice(..0, before);
        if bytes.is_empty() {
            return Ok(bytes);
        }
        Box::pin(self.below.write(bytes, timeout)).await
    }

    pub(super) async fn finish(&self, timeout: IoTimeout) {
        if !self.closing.replace(true) {
            close(Code::Normal, &mut self.answers.borrow_mut());
        }
        // The client may already be gone.
        let _ = self.write(Vec::new(), timeout).await;
        Box::pin(self.below.finish(timeout)).await;
    }
}
