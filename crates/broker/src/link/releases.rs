//! The end of an earlier session's QoS 2 messages that the remote broker may hold. It would take a new message with the
//! same packet identifier for one of them.
//!
//! PUBREL ends each of them. The new session knows none of the packet identifiers, so it releases all, and its messages wait
//! until the remote broker has answered. Then no answer can be taken for that to a message of the new session, and if the
//! connection ends before, all can be released again.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::Duration;

use phalanx::sync::Notify;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_mqtt::{Ack, Packet, PacketId, Version};

use crate::link::awaited::Awaited;

/// The released packet identifiers of a connection.
pub(super) struct Releases {
    /// By packet identifier, whether PUBCOMP is outstanding. Empty if none is.
    outstanding: RefCell<Vec<bool>>,
    count: Cell<usize>,
    answers: Awaited,
    is_ended: Cell<bool>,
    changed: Notify,
}

impl Releases {
    /// Of all packet identifiers, or of none.
    pub(super) fn new(of_all: bool, timeout: Duration, now: Duration) -> Self {
        let count = if of_all { usize::from(PacketId::MAX.get()) } else { 0 };
        Self {
            outstanding: RefCell::new(vec![true; count]),
            count: Cell::new(count),
            answers: Awaited::new("PUBREL", of_all, timeout, now),
            is_ended: Cell::new(false),
            changed: Notify::default(),
        }
    }

    /// The packets that release them.
    pub(super) fn packets(&self) -> Vec<u8> {
        let mut packets = Vec::new();
        for id in (1..=self.count.get()).filter_map(|id| PacketId::new(id as u16)) {
            // The packet is short.
            let _ = Packet::PubRel(Ack::of(id)).encode(Version::V5, &mut packets);
        }
        packets
    }

    /// Whether the remote broker has completed all.
    pub(super) fn are_complete(&self) -> bool {
        !self.answers.is_outstanding()
    }

    /// Whether a PUBCOMP answers one of them, rather than a PUBREL of the session.
    pub(super) fn completes(&self, id: PacketId) -> bool {
        let mut outstanding = self.outstanding.borrow_mut();
        let Some(own) = outstanding.get_mut(usize::from(id.get()) - 1) else { return false };
        if !std::mem::take(own) {
            return false;
        }
        self.count.set(self.count.get() - 1);
        self.answers.postpone(now());
        if self.count.get() == 0 {
            *outstanding = Vec::new();
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
