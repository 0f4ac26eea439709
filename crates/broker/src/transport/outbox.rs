//! The connection's responses to its client, in order. The reader appends them; the sender sends them between the
//! session's messages.

use std::cell::{Cell, RefCell};

use phalanx_mqtt::{Packet, Reason, Version};

use phalanx::sync::{Notified, Notify};

/// Maximum size of unsent responses, in bytes. At the limit the broker stops reading from the client.
const MAX_QUEUED_BYTES: usize = 64 * 1024;

/// Responses waiting to be sent.
pub(crate) struct Outbox {
    version: Version,
    /// Maximum packet size of the client, in bytes.
    most: usize,
    bytes: RefCell<Vec<u8>>,
    /// Whether the session's output has to follow the bytes: they begin with the rest of its last packet, or contain a
    /// SUBACK.
    is_first: Cell<bool>,
    /// Whether the session's output waits for a SUBACK.
    is_session_held: Cell<bool>,
    /// Whether the client sent DISCONNECT. Pending responses are still sent, but no further packets.
    is_disconnected: Cell<bool>,
    /// Whether no further responses will be added.
    is_closed: Cell<bool>,
    /// Whether the sender was asked to stop, or has stopped, because the connection may move to another processor.
    leaving: Cell<Leaving>,
    /// Whether the session has sent messages on this connection.
    has_received: Cell<bool>,
    /// Why the sender closed the connection, if it did.
    cause: Cell<Option<Cause>>,
    /// Whether the client gets time to read the last response before the connection is closed.
    lingers: Cell<bool>,
    /// Wakes the sender when responses are added, and the reader when they are sent.
    sender: Notify,
    reader: Notify,
}

/// Why the sender closed a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cause {
    /// The session ended, with this reason.
    Session(Reason),
    /// The client has not read its output within the send timeout.
    SendTimeout,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    Asked,
    Stopped,
}

impl Outbox {
    pub(crate) fn new(version: Version, most: usize) -> Self {
        Self {
            version,
            most,
            bytes: RefCell::default(),
            is_first: Cell::new(false),
            is_session_held: Cell::new(false),
            is_disconnected: Cell::new(false),
            is_closed: Cell::new(false),
            leaving: Cell::new(Leaving::No),
            has_received: Cell::new(false),
            cause: Cell::new(None),
            lingers: Cell::new(false),
            sender: Notify::default(),
            reader: Notify::default(),
        }
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Maximum packet size of the client, in bytes.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Whether the client accepts a packet of this size, at least without its reason string.
    pub(crate) fn takes(&self, packet: &Packet<'_>) -> bool {
        packet.encode_within(self.version, self.most, &mut Vec::new()).is_ok()
    }

    /// Appends a packet, unless the outbox is closed (MQTT-3.14.4-1). A reason string is omitted if the
    /// packet would exceed the client's maximum packet size.
    pub(crate) fn push(&self, packet: &Packet<'_>) {
        if self.is_closed.get() {
            return;
        }
        debug_assert!(has_its_reason(packet), "no reason code of this packet: {packet:?}");
        let mut bytes = self.bytes.borrow_mut();
        // Cannot fail: packets that would be too long even without a reason string were rejected earlier.
        let _ = packet.encode_within(self.version, self.most, &mut bytes);
        drop(bytes);
        self.sender.notify();
    }

    /// Stores the rest of a packet of the session that was sent in part. The outbox must be [idle](Self::is_idle).
    #[cold]
    pub(crate) fn push_rest(&self, rest: &[u8]) {
        self.bytes.borrow_mut().extend_from_slice(rest);
        self.is_first.set(true);
        self.sender.notify();
    }

    /// Holds the output of the session back until [`release_session`](Self::release_session), so that SUBACK precedes the
    /// messages of new subscriptions.
    pub(crate) fn hold_session(&self) {
        self.is_session_held.set(true);
    }

    /// Continues the output of the session, after the pending responses.
    pub(crate) fn release_session(&self) {
        self.is_session_held.set(false);
        self.is_first.set(true);
        self.sender.notify();
    }

    pub(crate) fn is_session_held(&self) -> bool {
        self.is_session_held.get()
    }

    /// Wakes the sender for output that is not in the outbox.
    pub(crate) fn nudge(&self) {
        self.sender.notify();
    }

    /// Records that the client sent DISCONNECT. The connection stays open until its session has processed it.
    pub(crate) fn disconnect(&self) {
        self.is_disconnected.set(true);
        self.sender.notify();
    }

    pub(crate) fn is_disconnected(&self) -> bool {
        self.is_disconnected.get()
    }

    /// Records that the session sends messages on this connection.
    pub(crate) fn set_received(&self) {
        self.has_received.set(true);
    }

    pub(crate) fn has_received(&self) -> bool {
        self.has_received.get()
    }

    /// Asks the sender to stop when it has sent everything.
    pub(crate) fn ask_to_stop(&self) {
        self.leaving.set(Leaving::Asked);
        self.sender.notify();
    }

    pub(crate) fn is_asked_to_stop(&self) -> bool {
        self.leaving.get() == Leaving::Asked
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.leaving.get() == Leaving::Stopped
    }

    /// Records that the sender stops.
    pub(crate) fn stop(&self) {
        self.leaving.set(Leaving::Stopped);
        self.reader.notify();
    }

    /// Waits until the sender has stopped, or the outbox is closed.
    pub(crate) async fn stopped(&self) {
        while self.is_asked_to_stop() && !self.is_closed.get() {
            self.reader.notified().await;
        }
    }

    /// Continues after a failed move. Returns whether the sender had stopped and has to be restarted.
    pub(crate) fn go_on(&self) -> bool {
        self.leaving.replace(Leaving::No) == Leaving::Stopped
    }

    /// Closes the outbox, so that no further responses are added.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        self.sender.notify();
        self.reader.notify();
    }

    /// Closes the outbox after a final packet with a reason. The client gets time to read it.
    pub(crate) fn close_with_words(&self) {
        self.lingers.set(true);
        self.close();
    }

    /// Records why the sender closes the connection. Only the first cause is kept.
    pub(crate) fn set_cause(&self, cause: Cause) {
        self.cause.set(self.cause.get().or(Some(cause)));
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        self.cause.get()
    }

    pub(crate) fn lingers(&self) -> bool {
        self.lingers.get()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Takes all pending bytes, and stores `spare` as the next buffer.
    pub(crate) fn take(&self, spare: Vec<u8>) -> Vec<u8> {
        self.reader.notify();
        self.is_first.set(false);
        std::mem::replace(&mut self.bytes.borrow_mut(), spare)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.borrow().is_empty()
    }

    /// Whether the sender only waits for output of the session.
    pub(crate) fn is_idle(&self) -> bool {
        let is_ending = self.is_closed.get() || self.is_disconnected.get();
        let is_held = self.is_session_held.get();
        self.is_empty() && !is_held && !is_ending && self.leaving.get() == Leaving::No
    }

    /// Whether responses are pending, and output of the session may be sent before them.
    pub(crate) fn may_alternate(&self) -> bool {
        let is_ending = self.is_closed.get() || self.is_disconnected.get();
        let is_staying = !is_ending && self.leaving.get() == Leaving::No;
        let is_held = self.is_first.get() || self.is_session_held.get();
        !self.is_empty() && !is_held && is_staying
    }

    /// Completes when there are responses, or the outbox is closed.
    pub(crate) fn filled(&self) -> Notified<'_> {
        self.sender.notified()
    }

    /// Waits until fewer than [`MAX_QUEUED_BYTES`] are pending.
    pub(crate) async fn wait_for_capacity(&self) {
        while self.bytes.borrow().len() > MAX_QUEUED_BYTES && !self.is_closed.get() {
            self.reader.notified().await;
        }
    }
}

/// Whether a packet has a reason code that is valid for its kind. Clients may treat others as malformed.
fn has_its_reason(packet: &Packet<'_>) -> bool {
    let of_publish =
        |reason: u8| matches!(reason, 0 | 0x10 | 0x80 | 0x83 | 0x87 | 0x90 | 0x91 | 0x97 | 0x99);
    let of_subscribe = |reason: u8| {
        matches!(reason, 0..=2 | 0x80 | 0x83 | 0x87 | 0x8f | 0x91 | 0x97 | 0x9e | 0xa1 | 0xa2)
    };
    let of_unsubscribe = |reason: u8| matches!(reason, 0 | 0x11 | 0x80 | 0x83 | 0x87 | 0x8f | 0x91);
    match packet {
        Packet::PubAck(ack) | Packet::PubRec(ack) => of_publish(ack.reason.0),
        Packet::PubRel(ack) | Packet::PubComp(ack) => matches!(ack.reason.0, 0 | 0x92),
        Packet::SubAck(ack) => ack.reasons.iter().copied().all(of_subscribe),
        Packet::UnsubAck(ack) => ack.reasons.iter().copied().all(of_unsubscribe),
        Packet::Auth(auth) => matches!(auth.reason.0, 0 | 0x18 | 0x19),
        Packet::Disconnect(end) => {
            !matches!(end.reason.0, 0x84..=0x86 | 0x88 | 0x8a | 0x8c | 0x91 | 0x92)
        }
        _ => true,
    }
}
