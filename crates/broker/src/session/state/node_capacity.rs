//! The space in the queue for another node of the cluster, for which publishers wait.

use phalanx_mqtt::QoS;

use crate::config::Limits;
use crate::model::session::Session;

impl Session {
    /// Whether the publisher of a message with this QoS waits while the queue is full. If so, the queue accepts the
    /// message beyond its limit, because the message was routed before the queue was full.
    pub(crate) fn is_waited_for(&self, qos: QoS) -> bool {
        let is_waited = self.node_capacity.as_ref().is_some_and(|capacity| !capacity.is_given_up());
        is_waited && self.attachment.is_some() && qos != QoS::AtMostOnce
    }

    /// Tells publishers whether the queue has space. After it was full, a quarter has to be free, so that publishers are
    /// not woken for single messages.
    pub(crate) fn update_capacity(&self, limits: &Limits) {
        let Some(capacity) = &self.node_capacity else { return };
        let (count, bytes) = (self.queue.len(), self.queued_bytes + self.inflight.bytes());
        let is_within = |part: usize| {
            count < (limits.queued_messages / 4 * part).max(1)
                && bytes < (limits.queued_bytes / 4 * part).max(1)
        };
        if self.attachment.is_none() || count == 0 || is_within(3) {
            capacity.open();
        } else if count >= limits.queued_messages || bytes >= limits.queued_bytes {
            capacity.fill();
        }
    }
}
