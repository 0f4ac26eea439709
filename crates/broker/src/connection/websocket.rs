//! MQTT within a WebSocket (MQTT 5 §6): bytes of packets within binary messages.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::time::now;
use phalanx_websocket::{Code, Decoder, MAX_HEAD, Refused, Upgrade, binary, close};

use crate::connection::outbox::Outbox;
use crate::connection::transport::Transport;

/// What is spoken within (MQTT 5 §6).
const PROTOCOL: &str = "mqtt";
/// So many bytes of answers wait for a client that does not read; what it asks for then is not answered.
const MAX_QUEUED_ANSWERS: usize = 4096;

/// The server's end of a WebSocket.
pub(crate) struct WebSocket {
    below: Transport,
    decoder: RefCell<Decoder>,
    /// What came behind the upgrade.
    early: RefCell<Vec<u8>>,
    /// Pongs, and at last a close frame: sent by whoever writes.
    answers: RefCell<Vec<u8>>,
    /// The close frame is said.
    closing: Cell<bool>,
    /// Wakes whoever writes; as long as there is nobody, the reader writes itself.
    sender: RefCell<Option<Rc<Outbox>>>,
}

/// Becomes a WebSocket, if the client wants one and its page may have one. `limit` is for all of it.
pub(crate) async fn upgrade(
    below: Transport,
    origins: &[String],
    limit: Duration,
) -> Option<WebSocket> {
    let (begun, mut input) = (now(), Vec::new());
    let (accept, length) = loop {
        let timeout = IoTimeout::after(limit.saturating_sub(now() - begun)).until_shutdown();
        let allowed = |upgrade: &Upgrade<'_>| match upgrade.origin {
            None => true,
            Some(origin) => origins.iter().any(|own| own == "*" || own == origin),
        };
        let refused = match Upgrade::read(&input, PROTOCOL) {
            Ok(Some(upgrade)) if allowed(&upgrade) => break (upgrade.accept, upgrade.length),
            Ok(Some(_)) => Refused::ORIGIN,
            Err(refused) => refused,
            Ok(None) => match below.read(&mut input, timeout).await {
                Ok(1..) => continue,
                _ => return None,
            },
        };
        let _ = below.write(refused.answer(), timeout).await;
        super::connect::linger(&below).await;
        return None;
    };
    debug_assert!(length <= MAX_HEAD);
    let left = limit.saturating_sub(now() - begun);
    below.write(accept, IoTimeout::after(left)).await.ok()?;
    input.drain(..length);
    Some(WebSocket {
        below,
        decoder: RefCell::default(),
        early: RefCell::new(input),
        answers: RefCell::default(),
        closing: Cell::new(false),
        sender: RefCell::default(),
    })
}

impl WebSocket {
    pub(super) fn below(&self) -> &Transport {
        &self.below
    }

    pub(super) fn has_answers(&self) -> bool {
        !self.answers.borrow().is_empty()
    }

    pub(super) fn has_sender(&self, outbox: Rc<Outbox>) {
        self.sender.replace(Some(outbox));
    }

    pub(super) async fn read(&self, buffer: &mut Vec<u8>, timeout: IoTimeout) -> io::Result<usize> {
        let (before, begun) = (buffer.len(), now());
        let mut raw = self.early.take();
        while buffer.len() == before {
            if self.decoder.borrow().is_closed() {
                return Ok(0);
            }
            // One limit for packets, whatever else comes meanwhile.
            let timeout = timeout.remaining(now() - begun);
            if raw.is_empty() && Box::pin(self.below.read(&mut raw, timeout)).await? == 0 {
                return Ok(0);
            }
            self.take(&raw, buffer);
            raw.clear();
            if self.has_answers() {
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
        // What is broken is closed with an answer that says why.
        let _ = decoder.feed(raw, buffer, &mut answers);
        match decoder.is_closed() {
            // Nothing is said behind the end.
            true if self.closing.get() => answers.truncate(before),
            true => self.closing.set(true),
            false if before > MAX_QUEUED_ANSWERS => answers.truncate(before),
            false => (),
        }
    }

    /// Sends what there is to answer, and `bytes` in a message, if there are any.
    pub(super) async fn write(
        &self,
        mut bytes: Vec<u8>,
        timeout: IoTimeout,
    ) -> io::Result<Vec<u8>> {
        let mut before = self.answers.take();
        if self.closing.get() {
            // The last that is said is the close frame.
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
        // There may be nobody to tell.
        let _ = self.write(Vec::new(), timeout).await;
        Box::pin(self.below.finish(timeout)).await;
    }
}
