//! Messages to a client: queueing, writing to the connection's buffer, and acknowledgement.

use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::{Ack, Delivery, Kind, Packet, PacketId, QoS, Reason};
use phalanx_store::{DeliveryId, Entry, Record, SessionId};

use crate::access::is_of_node;
use crate::config::{Limits, WhenFull};
use crate::events::drops::{DropReason, Drops};
use crate::events::traces::TracedPublish;
use crate::model::delivery::How;
use crate::model::handed::is_mark;
use crate::model::inflight::Inflight;
use crate::model::message::{Message, Source};
use crate::model::session::{Attachment, Queued, Session};
use crate::session::state::encoding::{SendContext, write};

/// Maximum size of the connection's output buffer; further messages are queued.
pub(super) const MAX_WRITE_AHEAD: usize = 256 * 1024;

/// Largest output buffer that is kept for reuse, and the maximum number of these buffers.
const MAX_SPARE_BYTES: usize = 16 * 1024;
const MAX_SPARES: usize = 64;

/// Minimum interval between searches of a full queue for expired messages.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// A client's acknowledgement of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) kind: Kind,
    pub(crate) id: PacketId,
    pub(crate) failed: bool,
}

impl Session {
    /// Delivers a message, with its delivery ID if recorded. Writes it if possible, otherwise queues it. Returns false if
    /// it was dropped.
    pub(crate) fn deliver(
        &mut self,
        message: &Arc<Message>,
        how: &How,
        number: u64,
        context: &mut SendContext<'_>,
    ) -> bool {
        let size = message.size();
        let Limits { queued_messages, queued_bytes, when_full, .. } = *context.limits;
        if let Some(attachment) = &self.attachment {
            let window = how.qos == QoS::AtMostOnce || self.has_window((1, size), queued_bytes);
            let first = self.queue.is_empty() && attachment.again.is_empty();
            if first && window && attachment.out.len() < MAX_WRITE_AHEAD {
                return self.send(message, how, number, context);
            }
        } else if how.qos == QoS::AtMostOnce {
            // QoS 0 messages are not queued for disconnected clients.
            self.dropped(DropReason::Offline, message, context.drops);
            return false;
        }
        // The first message that waits is accepted whatever its size, because it can be sent later. So a session exceeds
        // the limit of bytes by at most two messages: a single one in flight, and a single one that waits.
        let is_full = |session: &Self| {
            let bytes = session.queued_bytes + session.inflight.bytes() + size;
            (session.queue.len() >= queued_messages
                || bytes > queued_bytes && !session.queue.is_empty())
                && !(is_of_node(&session.client_id) && is_mark(&how.identifiers))
                && message.source != Source::Cut
        };
        if is_full(self) && self.sweep <= context.now {
            self.sweep(context);
        }
        while is_full(self) && !self.is_waited_for(how.qos) {
            // Only QoS 0 messages may be dropped after they were accepted.
            let oldest = match when_full {
                WhenFull::DropOldest => self.take_oldest_at_most_once(),
                WhenFull::DropNewest => None,
            };
            let Some(oldest) = oldest else {
                self.record_done(number, context.records);
                self.dropped(DropReason::QueueFull, message, context.drops);
                return false;
            };
            self.dropped(DropReason::QueueFull, &oldest.message, context.drops);
        }
        self.queued_bytes += size;
        if let Some(expires) = message.expires() {
            self.sweep = self.sweep.min(expires.max(context.now.saturating_add(SWEEP_INTERVAL)));
        }
        self.queue.push_back(Queued { message: message.clone(), how: how.clone(), number });
        true
    }

    /// Counts a dropped message of this client.
    fn dropped(&self, reason: DropReason, message: &Message, drops: &Drops) {
        drops.add(reason, 1, || self.dropped_message(message));
        trace("dropped", &self.client_id, (message, message.qos), drops);
    }

    /// Removes expired messages from a full queue. Called at intervals, because it searches the whole queue.
    #[cold]
    fn sweep(&mut self, context: &mut SendContext<'_>) {
        let mut next = Duration::MAX;
        let session = self.number;
        let mut queue = std::mem::take(&mut self.queue);
        queue.retain(|queued| {
            let expires = queued.message.expires();
            let stays = expires.is_none_or(|expires| expires > context.now);
            if stays {
                next = next.min(expires.unwrap_or(Duration::MAX));
                return true;
            }
            context.drops.add(DropReason::Expired, 1, || self.dropped_message(&queued.message));
            if queued.number != 0 {
                let (session, delivery) = (SessionId(session), DeliveryId(queued.number));
                context.records.push(&Record::Done { session, delivery });
            }
            false
        });
        self.set_queue(queue);
        self.sweep = next.max(context.now.saturating_add(SWEEP_INTERVAL));
    }

    /// Records the end of a delivery.
    fn record_done(&self, number: u64, records: &mut Entry) {
        if number != 0 {
            let (session, delivery) = (SessionId(self.number), DeliveryId(number));
            records.push(&Record::Done { session, delivery });
        }
    }

    /// Writes queued messages, as far as possible.
    pub(crate) fn fill(&mut self, context: &mut SendContext<'_>) {
        while self.has_room() {
            let Some(attachment) = &mut self.attachment else { return };
            // The receive maximum may be lower than the previous connection's.
            let in_flight = self.inflight.len().saturating_sub(attachment.again.len());
            if !attachment.again.is_empty() && in_flight >= attachment.window() {
                return;
            }
            let Some(id) = attachment.again.pop_front() else { break };
            self.send_again(id, context);
        }
        while self.has_room()
            && let Some(next) = self.queue.front()
        {
            let most = context.limits.queued_bytes;
            if next.how.qos != QoS::AtMostOnce && !self.has_window((1, next.message.size()), most) {
                return;
            }
            let Some(Queued { message, how, number }) = self.pop_queued() else { return };
            match message.has_expired(context.now) {
                true => {
                    self.dropped(DropReason::Expired, &message, context.drops);
                    self.record_done(number, context.records);
                }
                false => _ = self.send(&message, &how, number, context),
            }
        }
    }

    /// Whether `count` QoS 1 or 2 messages of `size` bytes may be sent now. A message beyond `most` bytes has to be alone
    /// in flight.
    pub(super) fn has_window(&self, (count, size): (usize, usize), most: usize) -> bool {
        let is_alone = count == 1 && self.inflight.bytes() == 0;
        let free = |attachment: &Attachment| self.inflight.len() + count <= attachment.window();
        let fits = is_alone || self.inflight.bytes() + size <= most;
        fits && self.attachment.as_ref().is_some_and(free)
    }

    /// The number of messages that are in flight, or in the output with QoS 0.
    pub(in crate::session) fn written(&self) -> usize {
        self.inflight.len() + self.attachment.as_ref().map_or(0, |attachment| attachment.unsent)
    }

    fn has_room(&self) -> bool {
        self.attachment.as_ref().is_some_and(|attachment| attachment.out.len() < MAX_WRITE_AHEAD)
    }

    /// Writes a message for the first time. Returns false if it was dropped.
    fn send(
        &mut self,
        message: &Arc<Message>,
        how: &How,
        number: u64,
        context: &mut SendContext<'_>,
    ) -> bool {
        let Some(attachment) = &mut self.attachment else { return false };
        let mut id = || self.inflight.add(message, how, number);
        let delivery = match how.qos {
            QoS::AtMostOnce => Delivery::AtMostOnce,
            QoS::AtLeastOnce => Delivery::AtLeastOnce(id()),
            QoS::ExactlyOnce => Delivery::ExactlyOnce(id()),
        };
        let client = &self.client_id;
        let written = write((attachment, client), message, how, (delivery, false), context);
        attachment.unsent += usize::from(written.is_ok() && delivery.id().is_none());
        // A recorded delivery (`number` ≠ 0) first waits for the disk.
        match context.at_once && number == 0 && attachment.send_now() {
            true => keep(context.spares, std::mem::take(&mut attachment.out)),
            false => attachment.wake(),
        }
        // A message that exceeds the client's maximum packet size is dropped (MQTT-3.1.2-25).
        if let Err(reason) = written {
            if let Some(id) = delivery.id() {
                self.inflight.remove(id);
            }
            self.dropped(reason, message, context.drops);
            self.record_done(number, context.records);
            return false;
        }
        trace("sent", &self.client_id, (message, how.qos), context.drops);
        let Some(id) = delivery.id() else {
            self.record_done(number, context.records);
            return true;
        };
        if number != 0 {
            // The packet identifier must be on disk before the client sees it.
            attachment.is_fenced = true;
            let (session, delivery) = (SessionId(self.number), DeliveryId(number));
            context.records.push(&Record::Sent { session, delivery, packet: id.get() });
        }
        true
    }

    /// Retransmits a message of an earlier connection.
    fn send_again(&mut self, id: PacketId, context: &mut SendContext<'_>) {
        let (Some(attachment), Some(inflight)) = (&mut self.attachment, self.inflight.get(id))
        else {
            return;
        };
        let written = match &inflight.message {
            None => {
                // Cannot fail: the packet is short.
                let _ = Packet::PubRel(Ack::success(id))
                    .encode(attachment.version, &mut attachment.out);
                Ok(())
            }
            Some((message, how)) => {
                let delivery = match how.qos {
                    QoS::ExactlyOnce => Delivery::ExactlyOnce(id),
                    _ => Delivery::AtLeastOnce(id),
                };
                let client = &self.client_id;
                write((attachment, client), message, how, (delivery, true), context)
            }
        };
        let number = inflight.number;
        attachment.is_fenced |= number != 0;
        attachment.wake();
        if let Err(reason) = written {
            let message = self.inflight.remove(id).and_then(|inflight| inflight.message);
            message.inspect(|(message, _)| self.dropped(reason, message, context.drops));
            self.record_done(number, context.records);
        }
    }

    /// Processes acknowledgements.
    pub(crate) fn answered(&mut self, answers: &[Answered], records: &mut Entry) {
        for &Answered { kind, id, failed } in answers {
            match kind {
                Kind::PubAck => {
                    self.complete(id, |inflight| inflight.qos() == Some(QoS::AtLeastOnce), records);
                }
                Kind::PubRec => self.received(id, failed, records),
                Kind::PubComp
                    if self.complete(id, |inflight| inflight.qos().is_none(), records) =>
                {
                    self.earlier().map(|earlier| earlier.released.remove(&id));
                }
                // Ignored: the message was completed or never sent.
                _ => (),
            }
        }
        if let Some(attachment) = &mut self.attachment
            && !(self.queue.is_empty() && attachment.again.is_empty())
        {
            attachment.wake();
        }
    }

    /// Processes a PUBREC.
    fn received(&mut self, id: PacketId, failed: bool, records: &mut Entry) {
        let has_room = self.has_room();
        let Some(inflight) = self.inflight.get(id) else {
            if !failed && has_room {
                self.release(id, Reason::PACKET_IDENTIFIER_NOT_FOUND);
            }
            return;
        };
        let number = inflight.number;
        match inflight.qos() {
            Some(QoS::ExactlyOnce) if failed => {
                self.complete(id, |_| true, records);
                return;
            }
            Some(QoS::ExactlyOnce) => {
                self.inflight.take_message(id);
                if number != 0 {
                    let (session, delivery) = (SessionId(self.number), DeliveryId(number));
                    records.push(&Record::Received { session, delivery });
                }
            }
            // A repeated PUBREC. The client may not read its responses.
            None if has_room => (),
            _ => return,
        }
        if let Some(attachment) = &mut self.attachment {
            // The client will forget the message, so its state must be on disk.
            attachment.is_fenced |= number != 0;
        }
        self.release(id, Reason::SUCCESS);
    }

    /// Completes a message in flight if it satisfies `condition`. Returns whether it did.
    #[inline]
    fn complete(
        &mut self,
        id: PacketId,
        condition: impl FnOnce(&Inflight) -> bool,
        records: &mut Entry,
    ) -> bool {
        let removed = self.inflight.remove_if(id, condition);
        removed.as_ref().inspect(|inflight| self.record_done(inflight.number, records));
        removed.is_some()
    }

    fn release(&mut self, id: PacketId, reason: Reason) {
        if let Some(attachment) = &mut self.attachment {
            let release = Packet::PubRel(Ack { reason, ..Ack::success(id) });
            let _ = release.encode(attachment.version, &mut attachment.out);
            attachment.wake();
        }
    }
}

/// Records a message of a client for an operator's trace.
#[inline]
fn trace(event: &'static str, client: &str, (message, qos): (&Message, QoS), drops: &Drops) {
    let traces = drops.events().traces();
    if traces.is_on() {
        let Message { topic, payload, retain, .. } = message;
        let passing = TracedPublish { topic, payload, qos, retain: *retain };
        traces.record(event, client, Some(passing));
    }
}

/// Keeps the memory of an output buffer for reuse by another client.
pub(crate) fn keep(spares: &mut Vec<Vec<u8>>, mut memory: Vec<u8>) {
    memory.clear();
    if (1..=MAX_SPARE_BYTES).contains(&memory.capacity()) && spares.len() < MAX_SPARES {
        spares.push(memory);
    }
}
