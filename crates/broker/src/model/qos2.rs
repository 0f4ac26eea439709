//! QoS 2 messages from a client that are being routed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use phalanx_mqtt::PacketId;

/// QoS 2 messages that one connection received together. Shared with the router and the session, which may outlive the
/// connection.
#[derive(Debug, Default)]
pub(crate) struct Qos2InFlight {
    is_routed: AtomicBool,
    /// Packet identifiers of messages that were not accepted. Usually empty.
    refused: Mutex<Vec<PacketId>>,
}

impl Qos2InFlight {
    /// Whether the messages were delivered to their subscribers' sessions.
    pub(crate) fn is_routed(&self) -> bool {
        self.is_routed.load(Ordering::Acquire)
    }

    /// Records that the messages are in the WAL and were delivered to their subscribers' sessions.
    pub(crate) fn set_routed(&self) {
        self.is_routed.store(true, Ordering::Release);
    }

    /// Records that these messages were not accepted, so that a retransmission on any connection counts as a new message.
    pub(crate) fn refuse(&self, ids: impl IntoIterator<Item = PacketId>) {
        self.refused().extend(ids);
    }

    pub(crate) fn has_refused(&self, id: PacketId) -> bool {
        self.refused().contains(&id)
    }

    fn refused(&self) -> MutexGuard<'_, Vec<PacketId>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
