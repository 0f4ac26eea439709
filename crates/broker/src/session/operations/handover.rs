//! Takes the messages that the session for a lost node holds.

use std::sync::Arc;

use phalanx::CallError;
use phalanx_mqtt::PacketId;

use crate::model::client_key::ClientKey;
use crate::session::operations::SessionStage;
use crate::session::partition::handover::TakenMessages;

impl SessionStage {
    /// Takes messages from a client's session: see [`Sessions::take_messages`](crate::session::partition::Sessions).
    pub(crate) async fn take_messages(
        self,
        client: Arc<str>,
        received: Arc<[PacketId]>,
        most: usize,
    ) -> Result<Option<TakenMessages>, CallError> {
        let taken = self.call_client(client.clone(), move |sessions| async move {
            sessions.with(|sessions| sessions.take_messages(&client, &received, most))
        });
        taken.await
    }

    /// The key of a client's session, if the router knows it.
    pub(crate) async fn routed(self, client: Arc<str>) -> Result<Option<ClientKey>, CallError> {
        let key = self.call_client(client.clone(), move |sessions| async move {
            sessions.with(|sessions| sessions.routed(&client))
        });
        key.await
    }

    /// The packet identifiers of the QoS 2 messages that a client has sent and not released.
    pub(crate) async fn received(self, client: Arc<str>) -> Result<Vec<PacketId>, CallError> {
        let received = self.call_client(client.clone(), move |sessions| async move {
            sessions.with(|sessions| sessions.received(&client))
        });
        received.await
    }

    /// Like [`received`](Self::received), but `None` until the client's connection has ended and its messages are routed.
    pub(crate) async fn received_finally(
        self,
        client: Arc<str>,
    ) -> Result<Option<Vec<PacketId>>, CallError> {
        let received = self.call_client(client.clone(), move |sessions| async move {
            sessions.with(|sessions| sessions.received_finally(&client))
        });
        received.await
    }
}
