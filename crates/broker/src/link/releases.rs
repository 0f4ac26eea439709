//! Releases the QoS 2 messages of an earlier session that the remote broker may still hold. Otherwise it would mistake a
//! new message with the same packet identifier for a duplicate.
//!
//! PUBREL ends each message. The new session does not know which packet identifiers are in use, so it releases all of
//! them. Its own messages wait until the remote broker has answered, so that no answer is mistaken for an answer to them.
//! If the connection ends earlier, the next one releases the remaining identifiers. Otherwise, connections that are too
//! short to release all would start over forever.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sync::Notify;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_mqtt::{Ack, Packet, PacketId, Version};

use crate::link::answer_deadline::AnswerDeadline;

/// The packet identifiers that are not released yet. They persist over the connections of a bridge.
#[derive(Default)]
pub(crate) struct Unreleased {
    /// By packet identifier, whether PUBCOMP is outstanding. Empty if no PUBCOMP is.
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
        for (id, _) in
            ids.zip(&*self.outstanding.borrow()).filter(|(_, is_outstanding)| **is_outstanding)
        {
            // Cannot fail: the packet is short.
            let _ = Packet::PubRel(Ack::success(id)).encode(Version::V5, &mut packets);
        }
        packets
    }

    /// Removes a packet identifier. Returns whether it was outstanding.
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
    unreleased: Rc<Unreleased>,
    answers: AnswerDeadline,
    is_ended: Cell<bool>,
    changed: Notify,
}

impl Releases {
    pub(super) fn new(unreleased: Rc<Unreleased>, timeout: Duration, now: Duration) -> Self {
        let answers = AnswerDeadline::new("PUBREL", !unreleased.is_empty(), timeout, now);
        Self { unreleased, answers, is_ended: Cell::new(false), changed: Notify::default() }
    }

    pub(super) fn packets(&self) -> Vec<u8> {
        self.unreleased.packets()
    }

    /// Whether the remote broker has completed all.
    pub(super) fn are_complete(&self) -> bool {
        !self.answers.is_outstanding()
    }

    /// Completes the release that a PUBCOMP answers. Returns false if it answers a PUBREL of the session.
    pub(super) fn complete(&self, id: PacketId) -> bool {
        if !self.unreleased.remove(id) {
            return false;
        }
        self.answers.postpone(now());
        if self.unreleased.is_empty() {
            self.answers.complete();
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
    /// The answers did not arrive in time.
    pub(super) fn time_left(&self, now: Duration) -> io::Result<Option<Duration>> {
        self.answers.time_left(now)
    }

    /// Waits until all are complete.
    ///
    /// # Errors
    /// The connection has ended, or answers do not arrive in time.
    pub(super) async fn wait_until_complete(&self) -> io::Result<()> {
        while let Some(left) = self.time_left(now())? {
            if self.is_ended.get() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            select(self.changed.notified(), sleep(left)).await;
        }
        Ok(())
    }
}
