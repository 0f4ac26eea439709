//! The order in which retained messages expire.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use crate::model::message::Message;

/// A retained message that expires, or a deletion that is forgotten, ordered by time of expiry and topic. The order must not depend on addresses: the
/// journal records each removal, and a simulation with the same seed has to write the same journal.
pub(super) struct Expiring {
    pub(super) expires: Duration,
    pub(super) message: Arc<Message>,
}

impl Expiring {
    /// `None` if the message does not expire.
    pub(super) fn of(message: &Arc<Message>) -> Option<Self> {
        message.expires().map(|expires| Self { expires, message: message.clone() })
    }

    fn key(&self) -> (Duration, &str) {
        (self.expires, &self.message.topic)
    }
}

impl Ord for Expiring {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Expiring {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Expiring {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Expiring {}
