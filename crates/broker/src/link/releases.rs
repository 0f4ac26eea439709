//! The end of an earlier session's QoS 2 messages that the remote broker may hold. It would take a new message with the
//! same packet identifier for one of them.
//!
//! PUBREL ends each of them. The new session knows none of the packet identifiers, so it releases all, and its messages wait
//! until the remote broker has answered. Then no answer can be taken for that to a message of the new session. If the
//! connection ends before, the next one releases those that are left: a connection that never lasts long enough for all
//! would otherwise start again for ever.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sync::Notify;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_mqtt::{Ack, Packet, PacketId, Version};

use crate::link::awaited::Awaited;

/// The packet identifiers that are not released yet, over all connections of a bridge.
#[derive(Default)]
pub(crate) struct Unreleased {
    /// By packet identifier, whether PUBCOMP is outstanding. Empty if none is.
    outstanding: RefCell<Vec<bool>>,
    count: Cell<usize>,
}

impl Unreleased {
    /// All packet identifiers.
    pub(crate) fn all() -> Self {
        let count = usize::from(PacketId::MAX.get());
        Self { outstanding: RefCell::new(vec![true; count]), count: Cell::new(count) }
    }

    /// Whether all are released.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// The packets that release them.
    fn packets(&self) -> Vec<u8> {
        let mut packets = Vec::new();
        let ids = (1..=PacketId::MAX.get()).filter_map(PacketId::new);
        for (id, _) in ids.zip(&*self.outstanding.borrow()).filter(|(_, own)| **own) {
            // The packet is short.
            let _ = Packet::PubRel(Ack::of(id)).encode(Version::V5, &mut packets);
        }
        packets
    }

    /// Removes one. Returns whether it was not released yet.
    fn remove(&self, id: PacketId) -> bool {
        let mut outstanding = self.outstanding.borrow_mut();
        let own = outstanding.get_mut(usize::from(id.get()) - 1);
        let was_there = own.is_some_and(std::mem::take);
        if was_there {
            self.count.set(self.count.get() - 1);
            if self.is_empty() {
                *outstanding = Vec::new();
            }
        }
        was_there
    }
}

/// The packet identifiers that a connection releases.
pub(super) struct Releases {
    left: Rc<Unreleased>,
    answers: Awaited,
    is_ended: Cell<bool>,
    changed: Notify,
}

impl Releases {
    pub(super) fn new(left: Rc<Unreleased>, timeout: Duration, now: Duration) -> Self {
        let answers = Awaited::new("PUBREL", !left.is_empty(), timeout, now);
        Self { left, answers, is_ended: Cell::new(false), changed: Notify::default() }
    }

    /// The packets that release them.
    pub(super) fn packets(&self) -> Vec<u8> {
        self.left.packets()
    }

    /// Whether the remote broker has completed all.
    pub(super) fn are_complete(&self) -> bool {
        !self.answers.is_outstanding()
    }

    /// Whether a PUBCOMP answers one of them, rather than a PUBREL of the session.
    pub(super) fn completes(&self, id: PacketId) -> bool {
        if !self.left.remove(id) {
            return false;
        }
        self.answers.postpone(now());
        if self.left.is_empty() {
            self.answers.arrived();
            self.changed.notify();
        }
        true
    }

    /// The connection has ended.
    pub(super) fn end(&self) {
        self.is_ended.set(true);
        self.changed.notify();
    }

    /// Time until further answers are due; `None` if none is outstanding.
    ///
    /// # Errors
    /// They did not arrive in time.
    pub(super) fn left(&self, now: Duration) -> io::Result<Option<Duration>> {
        self.answers.left(now)
    }

    /// Waits until all are complete.
    ///
    /// # Errors
    /// The connection has ended, or answers do not arrive in time.
    pub(super) async fn completed(&self) -> io::Result<()> {
        while let Some(left) = self.left(now())? {
            if self.is_ended.get() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            select(self.changed.notified(), sleep(left)).await;
        }
        Ok(())
    }
}
