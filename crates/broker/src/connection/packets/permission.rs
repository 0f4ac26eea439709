//! Asks the authorization service about topics. A client's messages wait for the decision about their topic.

use std::time::Duration;

use phalanx_access::Action;
use phalanx_mqtt::{Publish, Reason, Version};

use crate::access::permissions::Verdict;
use crate::connection::batch::Batch;
use crate::connection::client::Connection;
use crate::connection::end::{End, UNDECIDED};

impl Connection {
    /// Returns the decision about a message's topic. Earlier messages are routed while the decision is awaited.
    pub(in crate::connection) async fn permission(
        &mut self,
        publish: &Publish<'_>,
        batch: &mut Batch,
    ) -> Result<Verdict, End> {
        let policy = self.policy.load().clone();
        // The service is not asked about topics that are invalid or that the access list denies.
        let topic = self.client.publishing.topic(publish);
        let Some(topic) = topic.filter(|topic| policy.may_publish(&self.client.identity, topic))
        else {
            return Ok(Verdict::Allowed);
        };
        let known = self.known_topics.get_or_insert_default();
        if let Some(verdict) = known.get(&policy, topic) {
            return Ok(verdict);
        }
        let topic = topic.to_owned();
        self.flush(batch).await?;
        let (verdict, end) = self.decide(Action::Publish, &topic).await;
        self.known_topics.get_or_insert_default().keep(&policy, &topic, (verdict, end));
        // MQTT 3.1.1 has no negative acknowledgement, so the client would believe that the message was delivered.
        let is_lost = publish.delivery.id().is_some() && self.client.version == Version::V3;
        match verdict {
            Verdict::Undecided if is_lost => Err(End::Because(Reason::SERVER_BUSY, UNDECIDED)),
            _ => Ok(verdict),
        }
    }

    /// Asks the service, if there is one: see [`Policy::decide`](crate::access::Policy::decide).
    pub(super) async fn decide(&mut self, action: Action, topic: &str) -> (Verdict, Duration) {
        let policy = self.policy.load().clone();
        let verifiers = &self.shared.context.verifiers;
        policy.decide(verifiers, (&self.client.identity, self.peer.ip()), (action, topic)).await
    }
}
