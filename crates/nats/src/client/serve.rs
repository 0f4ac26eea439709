//! Serves one connection: reads frames, sends appended messages, and pings. At shutdown, the connection still sends
//! messages that are appended until the client is stopped.

use std::io;
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::shutdown::{draining, is_draining};
use phalanx::task::Either;
use phalanx::{select, sleep};
use phalanx_tls::Wire;

use super::{Message, Shared};
use crate::codec::{Bounds, Frame};
use crate::login::Session;

/// Capacity that the buffer of unsent frames keeps, in bytes.
const KEPT_CAPACITY: usize = 256 * 1024;

/// Maximum number of bytes that a JetStream answer adds to a stored message: headers, subject and time.
const MAX_ADDED: usize = 64 * 1024;

/// Pings without an answer after which the server is lost.
const MAX_PINGS: u32 = 2;

impl Shared {
    /// Serves a connection to its end. Returns the reason.
    pub(super) async fn serve(&self, session: Session) -> String {
        let Session { wire, info, rest } = session;
        let metrics = &self.options.metrics;
        metrics.connections.add(1);
        self.max_payload.set(Some(info.max_payload));
        for (id, subscription) in &*self.subscriptions.borrow() {
            let (subject, queue) = (&*subscription.filter, subscription.queue.as_deref());
            self.append(Frame::Subscribe { subject, queue, id: *id });
        }
        self.connected.notify();
        let bounds = incoming_bounds(info.max_payload);
        let connection = select(self.read(&wire, rest, bounds), self.send(&wire));
        let reason = match select(connection, linger(self.options.linger)).await {
            Either::Left(Either::Left(reason) | Either::Right(reason)) => reason,
            Either::Right(()) => "the program is shutting down".into(),
        };
        self.max_payload.set(None);
        self.out.borrow_mut().clear();
        self.writing.set(0);
        // Messages in flight are counted as sent, because it is unknown how many arrived.
        metrics.dropped.add(self.out_messages.take());
        reason
    }

    async fn read(&self, wire: &Wire, mut input: Vec<u8>, bounds: Bounds) -> String {
        let mut pings = 0;
        loop {
            let mut consumed = 0;
            loop {
                match Frame::decode(&input[consumed..], bounds) {
                    Ok(None) => break,
                    Ok(Some((frame, length))) => {
                        match frame {
                            Frame::Message { subject, id, reply, headers, payload } => {
                                self.receive(id, Message { subject, reply, headers, payload });
                            }
                            Frame::Ping => self.append(Frame::Pong),
                            Frame::Error(message) if is_final(message) => {
                                return message.to_owned();
                            }
                            // For example, a subject that is not permitted.
                            Frame::Error(message) => (self.options.on_error)(message),
                            _ => (),
                        }
                        consumed += length;
                    }
                    Err(error) => return error.to_string(),
                }
            }
            input.drain(..consumed);
            let timeout = IoTimeout::after(self.options.ping_interval);
            match wire.read(&mut input, timeout).await {
                Ok(0) => return "the server closed the connection".into(),
                Ok(_) => pings = 0,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    // During shutdown the connection is kept, because there will be no other one.
                    if pings >= MAX_PINGS && !is_draining() {
                        return "the server does not answer pings".into();
                    }
                    pings += 1;
                    self.append(Frame::Ping);
                }
                Err(error) => return error.to_string(),
            }
        }
    }

    /// Passes a message to its subscription, if it still exists.
    fn receive(&self, id: u64, message: Message<'_>) {
        self.options.metrics.received.add(1);
        let handler =
            self.subscriptions.borrow().get(&id).map(|subscription| subscription.handler.clone());
        if let Some(handler) = handler {
            // There is only one reader, so the handler is not already borrowed.
            handler.borrow_mut()(message);
        }
    }

    async fn send(&self, wire: &Wire) -> String {
        let mut spare = Vec::new();
        loop {
            if self.out.borrow().is_empty() {
                if self.is_stopped.get() {
                    return "stopped".into();
                }
                self.has_output.notified().await;
                continue;
            }
            let bytes = self.out.replace(spare);
            let messages = self.out_messages.take();
            self.writing.set(bytes.len());
            let timeout = IoTimeout::after(self.options.write_timeout);
            match wire.write(bytes, timeout).await {
                Ok(memory) => spare = memory,
                Err(error) => return error.to_string(),
            }
            self.writing.set(0);
            self.options.metrics.sent.add(messages);
            spare.clear();
            spare.shrink_to(KEPT_CAPACITY);
        }
    }
}

/// Bounds of received frames. The server applies `max_payload` to published messages, but a JetStream answer may
/// contain a stored message in base64.
fn incoming_bounds(max_payload: usize) -> Bounds {
    Bounds::of_payload(max_payload.div_ceil(3) * 4 + MAX_ADDED)
}

/// Completes `time` after the start of shutdown.
async fn linger(time: Duration) {
    draining().await;
    sleep(time).await;
}

/// Whether the server closes the connection after this error.
fn is_final(message: &str) -> bool {
    !message.to_ascii_lowercase().starts_with("permissions violation")
}
