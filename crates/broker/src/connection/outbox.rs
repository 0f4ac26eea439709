//! What a connection says by itself: answers to what its client has sent, in order. One operation writes
//! them, and another sends them between its session's messages.

use std::cell::{Cell, RefCell};

use phalanx_mqtt::{Packet, Version};

use crate::notify::{Notified, Notify};

/// So many bytes of answers may wait for a client that does not read; then nothing more is read of it.
const MAX_QUEUED_BYTES: usize = 64 * 1024;

/// Answers that are to be sent.
pub(crate) struct Outbox {
    version: Version,
    /// Bytes of the longest packet that the client takes.
    most: usize,
    bytes: RefCell<Vec<u8>>,
    /// The client has said goodbye: what is here is sent, and then nothing is said until it is closed.
    is_disconnected: Cell<bool>,
    /// Nothing comes behind them.
    is_closed: Cell<bool>,
    /// And the client is to have time to read them.
    lingers: Cell<bool>,
    /// The sender waits for answers; the reader for fewer of them.
    sender: Notify,
    reader: Notify,
}

impl Outbox {
    pub(crate) fn new(version: Version, most: usize) -> Self {
        Self {
            version,
            most,
            bytes: RefCell::default(),
            is_disconnected: Cell::new(false),
            is_closed: Cell::new(false),
            lingers: Cell::new(false),
            sender: Notify::default(),
            reader: Notify::default(),
        }
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Whether the client takes a packet that is this one, without its reason string at least.
    pub(crate) fn takes(&self, packet: &Packet<'_>) -> bool {
        packet.encode_within(self.version, self.most, &mut Vec::new()).is_ok()
    }

    /// Adds a packet; none behind the last (MQTT-3.14.4-1). One that is longer than the client takes loses its reason
    /// string.
    pub(crate) fn push(&self, packet: &Packet<'_>) {
        if self.is_closed.get() {
            return;
        }
        let mut bytes = self.bytes.borrow_mut();
        // Those that would be too long even so were refused before, and 3.1.1 has those that are asked for.
        let _ = packet.encode_within(self.version, self.most, &mut bytes);
        drop(bytes);
        self.sender.notify();
    }

    /// Wakes the sender, which has something to send that is not here.
    pub(crate) fn nudge(&self) {
        self.sender.notify();
    }

    /// The client has said goodbye. The connection stays until its session knows of that.
    pub(crate) fn disconnect(&self) {
        self.is_disconnected.set(true);
        self.sender.notify();
    }

    pub(crate) fn is_disconnected(&self) -> bool {
        self.is_disconnected.get()
    }

    /// Nothing more comes.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        self.sender.notify();
        self.reader.notify();
    }

    /// Nothing more comes, and the last is why: the client is to have time to read it.
    pub(crate) fn close_with_words(&self) {
        self.lingers.set(true);
        self.close();
    }

    pub(crate) fn lingers(&self) -> bool {
        self.lingers.get()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Takes all there is, in exchange for memory.
    pub(crate) fn take(&self, spare: Vec<u8>) -> Vec<u8> {
        self.reader.notify();
        std::mem::replace(&mut self.bytes.borrow_mut(), spare)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.borrow().is_empty()
    }

    /// Happens when there is something, or nothing more will be.
    pub(crate) fn filled(&self) -> Notified<'_> {
        self.sender.notified()
    }

    /// Waits until not too many wait.
    pub(crate) async fn room(&self) {
        while self.bytes.borrow().len() > MAX_QUEUED_BYTES && !self.is_closed.get() {
            self.reader.notified().await;
        }
    }
}
