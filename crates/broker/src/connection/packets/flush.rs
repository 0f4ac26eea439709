//! Processes the batch of one read: releases, messages, acknowledgements.

use phalanx_mqtt::{Ack, Packet, PacketId, Reason};

use crate::connection::batch::Batch;
use crate::connection::client::Connection;
use crate::connection::end::{End, TAKES_NOTHING};

impl Connection {
    /// Routes and acknowledges the batch.
    pub(in crate::connection) async fn flush(&mut self, batch: &mut Batch) -> Result<(), End> {
        if !batch.releases.is_empty() {
            // Boxed, because few connections need it.
            Box::pin(self.release(std::mem::take(&mut batch.releases))).await?;
        }
        let published = if batch.is_empty() { Ok(()) } else { self.publish(batch).await };
        // Even if the messages could not be stored, because acknowledgements free space.
        if !batch.answers.is_empty() {
            let (sessions, connection) =
                (self.context.stages.sessions, (self.key, self.connection_id));
            if sessions.try_answered(connection, &batch.answers) {
                batch.answers.clear();
                return published;
            }
            let told = sessions.answered(connection, std::mem::take(&mut batch.answers));
            return published.and(told.await.map_err(|_| Reason::SERVER_BUSY.into()));
        }
        published
    }

    /// Releases QoS 2 messages.
    async fn release(&mut self, ids: Vec<PacketId>) -> Result<(), End> {
        let sessions = self.context.stages.sessions;
        let known = match sessions.release(self.key, self.connection_id, ids.clone()).await {
            Ok(Some(known)) => known,
            Ok(None) => return Err(TAKES_NOTHING),
            Err(_) => return Err(Reason::SERVER_BUSY.into()),
        };
        for (id, is_known) in ids.into_iter().zip(known) {
            let reason = match is_known {
                true => Reason::SUCCESS,
                false => Reason::PACKET_IDENTIFIER_NOT_FOUND,
            };
            self.outbox.push(&Packet::PubComp(Ack { reason, ..Ack::success(id) }));
        }
        Ok(())
    }
}
