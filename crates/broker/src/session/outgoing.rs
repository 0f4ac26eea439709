//! Messages to a client: from the queue into the connection's buffer, and what its answers free.

use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::{
    Ack, Delivery, Kind, Packet, PacketId, Property, PropertyBuffer, Publish, QoS, Reason, Version,
};

use phalanx_store::{DeliveryId, Entry, Record, SessionId};

use crate::config::{Limits, WhenFull};
use crate::drops::{DropReason, Drops};
use crate::message::Message;
use crate::routing::delivery::How;
use crate::session::state::{Attachment, Inflight, Queued, Session};

/// So many bytes may be written ahead of the connection's sending. What comes then waits in the queue.
const MAX_WRITE_AHEAD: usize = 256 * 1024;

/// What waits is looked through for what has expired no more often than this.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// What a client says of a message that was sent to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) kind: Kind,
    pub(crate) id: PacketId,
    pub(crate) failed: bool,
}

/// What is at hand where messages are written.
pub(crate) struct SendContext<'d> {
    pub(crate) limits: &'d Limits,
    pub(crate) scratch: &'d mut PropertyBuffer,
    /// What is to be kept.
    pub(crate) records: &'d mut Entry,
    pub(crate) now: Duration,
    pub(crate) drops: &'d Drops,
}

impl Session {
    /// A message has come for this client, kept by a number if that is not 0: written at once if nothing is before
    /// it, else queued. False when it was dropped.
    pub(crate) fn deliver(
        &mut self,
        message: &Arc<Message>,
        how: &How,
        number: u64,
        context: &mut SendContext<'_>,
    ) -> bool {
        if let Some(attachment) = &self.attachment {
            let window =
                how.qos == QoS::AtMostOnce || self.inflight.len() < attachment.receive_maximum;
            let first = self.queue.is_empty() && attachment.again.is_empty();
            if first && window && attachment.out.len() < MAX_WRITE_AHEAD {
                self.send(message, how, number, context);
                return true;
            }
        } else if how.qos == QoS::AtMostOnce {
            // It may arrive or not, and nobody is there.
            self.dropped(DropReason::Offline, message, context.drops);
            return false;
        }
        let size = message.size();
        let Limits { queued_messages, queued_bytes, when_full, .. } = *context.limits;
        let is_full = |own: &Self| {
            own.queue.len() >= queued_messages || own.queued_bytes + size > queued_bytes
        };
        if is_full(self) && self.sweep <= context.now {
            self.sweep(context);
        }
        while is_full(self) {
            // Of what may get lost on its way anyway, and so is not kept.
            let oldest = self.queue.front().filter(|_| when_full == WhenFull::DropOldest);
            if oldest.is_none_or(|oldest| oldest.how.qos != QoS::AtMostOnce) {
                self.record_done(number, context.records);
                self.dropped(DropReason::QueueFull, message, context.drops);
                return false;
            }
            if let Some(oldest) = self.queue.pop_front() {
                self.queued_bytes -= oldest.message.size();
                self.dropped(DropReason::QueueFull, &oldest.message, context.drops);
            }
        }
        self.queued_bytes += size;
        if let Some(expires) = message.expires() {
            self.sweep = self.sweep.min(expires.max(context.now.saturating_add(SWEEP_INTERVAL)));
        }
        self.queue.push_back(Queued { message: message.clone(), how: how.clone(), number });
        true
    }

    /// A message is dropped that was for this client.
    fn dropped(&self, reason: DropReason, message: &Message, drops: &Drops) {
        let example = || format!("{:?} for client {:?}", message.topic, self.client_id);
        drops.add(reason, 1, example);
    }

    /// Forgets what has expired while it waited: only now does it take room from others. All that waits is looked at,
    /// so that is not done again soon.
    #[cold]
    fn sweep(&mut self, context: &mut SendContext<'_>) {
        let (mut next, mut bytes) = (Duration::MAX, 0);
        let (session, client) = (self.number, &self.client_id);
        self.queue.retain(|own| {
            let expires = own.message.expires();
            let stays = expires.is_none_or(|expires| expires > context.now);
            if stays {
                next = next.min(expires.unwrap_or(Duration::MAX));
                bytes += own.message.size();
                return true;
            }
            let example = || format!("{:?} for client {client:?}", own.message.topic);
            context.drops.add(DropReason::Expired, 1, example);
            if own.number != 0 {
                let (session, delivery) = (SessionId(session), DeliveryId(own.number));
                context.records.push(&Record::Done { session, delivery });
            }
            false
        });
        self.queued_bytes = bytes;
        self.sweep = next.max(context.now.saturating_add(SWEEP_INTERVAL));
    }

    /// Notes that a delivery is over.
    fn record_done(&self, number: u64, records: &mut Entry) {
        if number != 0 {
            let (session, delivery) = (SessionId(self.number), DeliveryId(number));
            records.push(&Record::Done { session, delivery });
        }
    }

    /// Writes what waits and may be written.
    pub(crate) fn fill(&mut self, context: &mut SendContext<'_>) {
        while self.has_room() {
            let Some(attachment) = &mut self.attachment else { return };
            // A client may take fewer at once than its connection before.
            let in_flight = self.inflight.len().saturating_sub(attachment.again.len());
            if !attachment.again.is_empty() && in_flight >= attachment.receive_maximum {
                return;
            }
            let Some(id) = attachment.again.pop_front() else { break };
            self.send_again(id, context);
        }
        while self.has_room()
            && let Some(next) = self.queue.front()
        {
            let free = |attachment: &Attachment| self.inflight.len() < attachment.receive_maximum;
            if next.how.qos != QoS::AtMostOnce && !self.attachment.as_ref().is_some_and(free) {
                return;
            }
            let Some(Queued { message, how, number }) = self.queue.pop_front() else { return };
            self.queued_bytes -= message.size();
            match message.has_expired(context.now) {
                true => {
                    self.dropped(DropReason::Expired, &message, context.drops);
                    self.record_done(number, context.records);
                }
                false => self.send(&message, &how, number, context),
            }
        }
    }

    fn has_room(&self) -> bool {
        self.attachment.as_ref().is_some_and(|attachment| attachment.out.len() < MAX_WRITE_AHEAD)
    }

    /// Writes a message for the first time.
    fn send(
        &mut self,
        message: &Arc<Message>,
        how: &How,
        number: u64,
        context: &mut SendContext<'_>,
    ) {
        let delivery = match how.qos {
            QoS::AtMostOnce => Delivery::AtMostOnce,
            QoS::AtLeastOnce => Delivery::AtLeastOnce(self.free_id()),
            QoS::ExactlyOnce => Delivery::ExactlyOnce(self.free_id()),
        };
        let Some(attachment) = &mut self.attachment else { return };
        let written = write(attachment, message, how, delivery, false, context);
        attachment.wake();
        attachment.unsent += usize::from(written.is_ok() && delivery.id().is_none());
        // What is longer than the client takes is not sent, as the standard has it.
        if let Err(reason) = written {
            self.dropped(reason, message, context.drops);
            return self.record_done(number, context.records);
        }
        let Some(id) = delivery.id() else { return self.record_done(number, context.records) };
        if number != 0 {
            // The client may know a message by this number only once that is known here for good.
            attachment.is_fenced = true;
            let (session, delivery) = (SessionId(self.number), DeliveryId(number));
            context.records.push(&Record::Sent { session, delivery, packet: id.get() });
        }
        self.sequence += 1;
        let message = Some((message.clone(), how.clone()));
        self.inflight.insert(id, Inflight { message, sequence: self.sequence, number });
    }

    /// Goes on with a message that an earlier connection has begun.
    fn send_again(&mut self, id: PacketId, context: &mut SendContext<'_>) {
        let (Some(attachment), Some(inflight)) = (&mut self.attachment, self.inflight.get(&id))
        else {
            return;
        };
        let written = match &inflight.message {
            None => {
                // It is short.
                let _ = Packet::PubRel(Ack::of(id)).encode(attachment.version, &mut attachment.out);
                Ok(())
            }
            Some((message, how)) => {
                let delivery = match how.qos {
                    QoS::ExactlyOnce => Delivery::ExactlyOnce(id),
                    _ => Delivery::AtLeastOnce(id),
                };
                write(attachment, message, how, delivery, true, context)
            }
        };
        let number = inflight.number;
        attachment.is_fenced |= number != 0;
        attachment.wake();
        if let Err(reason) = written {
            let message = self.inflight.remove(&id).and_then(|own| own.message);
            message.inspect(|(message, _)| self.dropped(reason, message, context.drops));
            self.record_done(number, context.records);
        }
    }

    /// A number that no message in flight has.
    fn free_id(&mut self) -> PacketId {
        loop {
            self.next_id = self.next_id.wrapping_add(1);
            if let Some(id) = PacketId::new(self.next_id)
                && !self.inflight.contains_key(&id)
            {
                return id;
            }
        }
    }

    /// What the client says of messages in flight.
    pub(crate) fn answered(&mut self, answers: &[Answered], records: &mut Entry) {
        for &Answered { kind, id, failed } in answers {
            let has_room = self.has_room();
            let inflight = self.inflight.get_mut(&id);
            let qos =
                inflight.as_ref().map(|inflight| inflight.message.as_ref().map(|(_, how)| how.qos));
            match (kind, qos) {
                (Kind::PubAck, Some(Some(QoS::AtLeastOnce))) => self.is_done(id, records),
                (Kind::PubRec, Some(Some(QoS::ExactlyOnce))) if failed => self.is_done(id, records),
                // Who says so again, and asks for more answers than it reads, gets no more.
                (Kind::PubRec, Some(None)) if !has_room => (),
                (Kind::PubRec, Some(Some(QoS::ExactlyOnce) | None)) => {
                    let number = inflight.as_ref().map_or(0, |inflight| inflight.number);
                    if let Some(inflight) = inflight
                        && inflight.message.take().is_some()
                        && number != 0
                    {
                        let (session, delivery) = (SessionId(self.number), DeliveryId(number));
                        records.push(&Record::Received { session, delivery });
                    }
                    if let Some(attachment) = &mut self.attachment {
                        // The client forgets it then, and so it must not be sent to it again.
                        attachment.is_fenced |= number != 0;
                    }
                    self.release(id, Reason::SUCCESS);
                }
                // Who asks for more of these than it reads gets no more.
                (Kind::PubRec, None) if !failed && has_room => {
                    self.release(id, Reason::PACKET_IDENTIFIER_NOT_FOUND);
                }
                (Kind::PubComp, Some(None)) => self.is_done(id, records),
                // Of a message that was answered before, or never sent: nothing follows.
                _ => (),
            }
        }
        if let Some(attachment) = &mut self.attachment
            && !(self.queue.is_empty() && attachment.again.is_empty())
        {
            attachment.wake();
        }
    }

    /// A message in flight is so no more.
    fn is_done(&mut self, id: PacketId, records: &mut Entry) {
        if let Some(inflight) = self.inflight.remove(&id) {
            self.record_done(inflight.number, records);
        }
    }

    fn release(&mut self, id: PacketId, reason: Reason) {
        if let Some(attachment) = &mut self.attachment {
            let release = Packet::PubRel(Ack { reason, ..Ack::of(id) });
            let _ = release.encode(attachment.version, &mut attachment.out);
            attachment.wake();
        }
    }
}

/// Appends a PUBLISH; nothing if it is dropped, for the reason that comes back.
fn write(
    attachment: &mut Attachment,
    message: &Message,
    how: &How,
    delivery: Delivery,
    duplicate: bool,
    context: &mut SendContext<'_>,
) -> Result<(), DropReason> {
    if message.is_invalid {
        return Err(DropReason::Invalid);
    }
    let SendContext { scratch, now, .. } = context;
    let before = attachment.out.len();
    let identifiers = how.identifiers.get();
    let alias =
        if attachment.most_aliases > 0 { alias(attachment, &message.topic) } else { Alias::None };
    let properties = match (message.properties(identifiers), alias) {
        (Some(properties), Alias::None) => properties,
        _ => {
            message.write_properties(scratch, identifiers, *now);
            if let Alias::New(number) | Alias::Known(number) = alias {
                // A number fits.
                let _ = scratch.push(Property::TopicAlias(number));
            }
            scratch.get()
        }
    };
    let publish = Publish {
        topic: if matches!(alias, Alias::Known(_)) { "" } else { &message.topic },
        payload: &message.payload,
        delivery,
        retain: how.retain,
        duplicate,
        properties,
    };
    let written = Packet::Publish(publish).encode(attachment.version, &mut attachment.out).is_ok()
        && attachment.out.len() - before <= attachment.most;
    if !written {
        attachment.out.truncate(before);
        return Err(DropReason::PacketTooLarge);
    }
    if let Alias::New(number) = alias {
        attachment.aliases.insert(message.topic.as_str().into(), number);
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Alias {
    None,
    /// To be told with the topic.
    New(u16),
    /// In place of the topic.
    Known(u16),
}

/// The first topics of a connection have aliases, as long as there are some.
fn alias(attachment: &Attachment, topic: &str) -> Alias {
    if attachment.version == Version::V3 {
        return Alias::None;
    }
    match attachment.aliases.get(topic) {
        Some(number) => Alias::Known(*number),
        None if attachment.aliases.len() < usize::from(attachment.most_aliases) => {
            Alias::New(attachment.aliases.len() as u16 + 1)
        }
        None => Alias::None,
    }
}
