//! Routes the messages of one read together, and acknowledges them together.

use std::sync::Arc;
use std::time::Duration;

use phalanx::sleep;
use phalanx::time::now;
use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, PropertyBuffer, Reason, Version};

use crate::connection::batch::Batch;
use crate::connection::client::Connection;
use crate::connection::end::{End, TAKES_NOTHING, UNDECIDED};
use crate::events::drops::DropReason;
use crate::model::message_pool;
use crate::model::qos2::Qos2InFlight;
use crate::requests::{Answer, Item, JOURNAL_FULL, Publication};
use crate::session::operations::RETRY_DELAY;

impl Connection {
    /// Routes and acknowledges the batch.
    pub(super) async fn publish(&mut self, batch: &mut Batch) -> Result<(), End> {
        batch.bytes = 0;
        let mut messages = std::mem::take(&mut batch.messages);
        let mut deliveries = std::mem::take(&mut batch.deliveries);
        let refused = std::mem::take(&mut batch.refused);
        let refusal = |n: usize| {
            let at = refused.binary_search_by_key(&n, |(at, _)| *at).ok()?;
            Some(refused[at].1)
        };
        let is_allowed = |n: &usize| refused.is_empty() || refusal(*n).is_none();
        self.context.counters.received.add(deliveries.len() as u64);
        if let Some(rate_limit) = &mut self.client.rate_limit {
            rate_limit.record(deliveries.len(), now());
        }
        let (begun, in_flight) =
            match deliveries.iter().any(|delivery| exactly_once(delivery).is_some()) {
                // Boxed, because few connections need it.
                true => Box::pin(self.begin(&deliveries)).await?,
                false => (None, None),
            };
        if let Some(begun) = &begun {
            let mut all = (0..begun.len()).filter(is_allowed).map(|n| begun[n]);
            messages.retain(|_| all.next().unwrap_or(true));
            if begun.contains(&false) {
                // Duplicates are acknowledged like new messages, so the original's records must be on disk.
                if let Err(end) = Box::pin(self.wait_for_all()).await {
                    refuse(&in_flight, &deliveries, begun);
                    return Err(end);
                }
            }
        }
        if let (true, Some(in_flight)) = (messages.is_empty(), &in_flight) {
            in_flight.set_routed();
        }
        let reasons = std::mem::take(&mut batch.reasons);
        let mut own =
            Publication { messages, begun: in_flight.clone(), reasons, ..Publication::default() };
        let (mut answered, mut done) = (0, Ok(()));
        let mut waited = Duration::ZERO;
        loop {
            if !own.messages.is_empty() {
                // Refused messages are already counted, and duplicates do not count.
                let left = own.messages.len();
                own = match self.context.stages.routing.call(Item::Publish(own)).await {
                    Ok(Answer::Published(own)) => own,
                    // The outcome is unknown. The client will retransmit, so a message may be delivered twice rather than
                    // not at all.
                    _ => {
                        let what = || self.as_publisher(None);
                        self.context.counters.drops.add(DropReason::Busy, left, what);
                        self.abandon_rest(&in_flight, &deliveries, (&begun, answered)).await;
                        return Err(Reason::SERVER_BUSY.into());
                    }
                };
            }
            let left = own.messages.split_off(own.reasons.len());
            // The batch was routed but is not on disk yet. It is not rejected either: the client retransmits
            // after reconnecting, and QoS 2 messages are then recognized as duplicates.
            let is_late = own.is_late && !deliveries.iter().all(is_at_most_once);
            if !own.messages.is_empty() {
                self.client.publishing.adapt_batch(own.each);
                // The session of this client knows its QoS 2 messages.
                let near = if own.begun.is_some() { Some(self.key.partition) } else { own.near };
                self.client.publishing.record_receivers(near);
            }
            message_pool::recycle(&mut own.messages);
            let mut reasons = own.reasons.drain(..);
            for (n, delivery) in deliveries.iter().enumerate().skip(answered) {
                let is_new = begun.as_ref().is_none_or(|begun| begun[n]);
                let reason = match is_allowed(&n) {
                    true if is_new => match reasons.next() {
                        Some(reason) => reason,
                        // Not routed yet; acknowledged in a later round.
                        None => break,
                    },
                    // MQTT 3.1.1 has no negative acknowledgement: the message is dropped and acknowledged.
                    false if is_new && self.client.version == Version::V5 => {
                        refusal(n).unwrap_or(Reason::SUCCESS)
                    }
                    _ => Reason::SUCCESS,
                };
                // Continue after an error, so that every rejected QoS 2 message is abandoned.
                if !is_late {
                    done = done.and(self.acknowledge(*delivery, reason).await);
                }
                answered = n + 1;
            }
            drop(reasons);
            if is_late {
                done = Err(TAKES_NOTHING);
            }
            if left.is_empty() {
                break;
            }
            // Messages must not overtake one that was not stored.
            let owes = self.client.publishing.owes_since.is_some()
                && left.iter().any(|message| message.is_kept_by_sender);
            let full = own.full.take();
            let is_gone = match &full {
                // Boxed, because it is rare.
                Some(capacity) if done.is_ok() && !owes => {
                    !Box::pin(self.wait_for_node(capacity, &mut waited)).await
                }
                _ => false,
            };
            if owes || is_gone {
                // The client sends these messages again, except those of QoS 0, which are lost.
                let lost = left.iter().filter(|message| !message.is_kept_by_sender).count();
                let what = || self.as_publisher(None);
                self.context.counters.drops.add(DropReason::Busy, lost, what);
            }
            if done.is_err() || owes || is_gone {
                self.abandon_rest(&in_flight, &deliveries, (&begun, answered)).await;
                return if is_gone { Err(End::Lost) } else { done };
            }
            let (messages, each) = (left.len(), self.client.publishing.each);
            own.messages = left;
            own.insists = waited >= self.node_limit();
            if full.is_some() {
                continue;
            }
            // Boxed, because it is rare.
            own.permit = Box::pin(self.context.delivery_limiter.acquire(messages, each)).await;
        }
        deliveries.clear();
        (batch.messages, batch.deliveries, batch.reasons) = (own.messages, deliveries, own.reasons);
        done
    }

    /// Abandons all messages after the first `answered`, so that retransmitted QoS 2 messages count as new.
    #[cold]
    async fn abandon_rest(
        &self,
        in_flight: &Option<Arc<Qos2InFlight>>,
        deliveries: &[Delivery],
        (begun, answered): (&Option<Vec<bool>>, usize),
    ) {
        let new = begun.as_ref().map_or(&[][..], |begun| &begun[answered..]);
        // First in the shared state: the client may already have reconnected, and the new connection cannot see the call
        // to the session below.
        let refused = refuse(in_flight, &deliveries[answered..], new);
        if let Some(in_flight) = in_flight {
            // The earlier messages were delivered.
            in_flight.set_routed();
        }
        self.abandon(refused).await;
    }

    /// Abandons QoS 2 messages, so that a retransmission counts as a new message.
    async fn abandon(&self, ids: Vec<PacketId>) {
        if !ids.is_empty() {
            let _ = self.context.stages.sessions.abandon(self.key, self.connection_id, ids).await;
        }
    }

    /// Waits until all appended records are on disk.
    async fn wait_for_all(&self) -> Result<(), End> {
        let wal = &self.context.wal;
        wal.durable_with_progress(wal.latest()).await.map_err(|_| TAKES_NOTHING)
    }

    /// Registers the QoS 2 messages of a batch. Returns whether to route each message of the batch, and the shared state
    /// of the QoS 2 messages.
    async fn begin(&self, deliveries: &[Delivery]) -> Result<Qos2Begin, End> {
        let ids: Vec<_> = deliveries.iter().filter_map(exactly_once).collect();
        let mut tries = 0;
        let (begun, in_flight) = loop {
            let begun =
                self.context.stages.sessions.begin(self.key, self.connection_id, ids.clone()).await;
            match begun.map_err(|_| Reason::SERVER_BUSY)? {
                Ok(begun) => break begun,
                // An earlier connection has registered the message and is still routing it.
                Err(Reason::SERVER_BUSY) if tries < 1000 => sleep(RETRY_DELAY).await,
                Err(reason) => return Err(reason.into()),
            }
            tries += 1;
        };
        let mut begun = begun.into_iter();
        let each = deliveries.iter().map(|delivery| match delivery {
            Delivery::ExactlyOnce(_) => begun.next().unwrap_or(true),
            _ => true,
        });
        Ok((Some(each.collect()), in_flight))
    }

    async fn acknowledge(&mut self, delivery: Delivery, mut reason: Reason) -> Result<(), End> {
        let Some(id) = delivery.id() else { return Ok(()) };
        if reason.is_failure()
            && self.context.kept.as_ref().is_some_and(|kept| kept.lost_reason().is_some())
        {
            // The client has to send the message to the node that has adopted the sessions.
            return Err(Reason::USE_ANOTHER_SERVER.into());
        }
        if reason.is_failure() {
            // Boxed, because it is rare.
            Box::pin(self.abandon(exactly_once(&delivery).into_iter().collect())).await;
        }
        if reason == JOURNAL_FULL {
            if self.client.publishing.sends_again {
                // The connection stays open, because its acknowledgements free space.
                self.client.publishing.owes_since.get_or_insert_with(now);
                return Ok(());
            }
            reason = Reason::QUOTA_EXCEEDED;
        }
        if reason.is_failure() && self.client.version == Version::V3 {
            // MQTT 3.1.1 has no negative acknowledgement, so the connection is closed instead.
            return Err(reason.into());
        }
        let mut buffer = PropertyBuffer::new();
        let what = match reason {
            Reason::NOT_AUTHORIZED => "this client may not publish to this topic",
            Reason::IMPLEMENTATION_SPECIFIC_ERROR => UNDECIDED,
            Reason::PAYLOAD_FORMAT_INVALID => "the payload is declared as UTF-8, but is not",
            reason if reason.is_failure() => "the message cannot be stored: a limit is reached",
            _ => "",
        };
        let properties = self.reason(&mut buffer, what);
        let ack = Ack { id, reason, properties };
        match delivery {
            Delivery::ExactlyOnce(_) => self.outbox.push(&Packet::PubRec(ack)),
            _ => self.outbox.push(&Packet::PubAck(ack)),
        }
        Ok(())
    }
}

/// Marks the `new` QoS 2 messages as refused, and returns their packet identifiers.
fn refuse(
    in_flight: &Option<Arc<Qos2InFlight>>,
    deliveries: &[Delivery],
    new: &[bool],
) -> Vec<PacketId> {
    let new = deliveries.iter().zip(new).filter(|(_, new)| **new);
    let ids: Vec<_> = new.filter_map(|(delivery, _)| exactly_once(delivery)).collect();
    if let Some(in_flight) = in_flight {
        in_flight.refuse(ids.iter().copied());
    }
    ids
}

/// See [`Connection::begin`].
type Qos2Begin = (Option<Vec<bool>>, Option<Arc<Qos2InFlight>>);

fn is_at_most_once(delivery: &Delivery) -> bool {
    delivery.id().is_none()
}

/// The packet identifier of a QoS 2 message.
fn exactly_once(delivery: &Delivery) -> Option<PacketId> {
    match delivery {
        Delivery::ExactlyOnce(id) => Some(*id),
        _ => None,
    }
}
