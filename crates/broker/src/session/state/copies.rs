//! Packets that several clients of one version get, with different packet identifiers.

use std::sync::Arc;

use phalanx_mqtt::{Frame, QoS, Version};

use crate::model::delivery::{Delivery, How};
use crate::model::message::Message;
use crate::model::session::Session;
use crate::session::state::encoding::SendContext;
use crate::session::state::outgoing::MAX_WRITE_AHEAD;

/// Capacity that each buffer keeps between batches, in bytes or in packets.
const MAX_KEPT: usize = 16 * 1024;

/// The packets of the last delivery of a batch that were encoded.
#[derive(Default)]
pub(in crate::session) struct Copies {
    /// The first message, the number of messages, and how they were encoded.
    of: Option<(u32, usize, How, Version)>,
    bytes: Vec<u8>,
    /// The positions of the packet identifiers.
    ids: Vec<usize>,
    /// The size of the messages, for limits.
    size: usize,
    /// The number of deliveries written from copies.
    #[cfg(test)]
    pub(in crate::session) used: usize,
}

impl Copies {
    /// Forgets the packets, at the end of a batch.
    pub(in crate::session) fn clear(&mut self) {
        self.of = None;
        self.bytes.clear();
        self.bytes.shrink_to(MAX_KEPT);
        self.ids.clear();
        self.ids.shrink_to(MAX_KEPT);
    }

    /// Writes the packets of a delivery if they were encoded for another client. Returns whether they were.
    pub(in crate::session) fn write(
        &mut self,
        (delivery, run): (&Delivery, &[Arc<Message>]),
        session: &mut Session,
        context: &mut SendContext<'_>,
    ) -> bool {
        if !self.are_for((delivery, run), session, context.limits.queued_bytes) {
            return false;
        }
        let Some(attachment) = &mut session.attachment else { return false };
        attachment.take_spare(context.spares);
        attachment.wake();
        let mut out = std::mem::take(&mut attachment.out);
        let before = out.len();
        out.extend_from_slice(&self.bytes);
        attachment.unsent += run.len() - self.ids.len();
        for (message, at) in run.iter().zip(&self.ids) {
            let id = session.inflight.add(message, &delivery.how, 0);
            out[before + at..][..2].copy_from_slice(&id.get().to_be_bytes());
        }
        if let Some(attachment) = &mut session.attachment {
            attachment.out = out;
        }
        #[cfg(test)]
        {
            self.used += 1;
        }
        true
    }

    /// Whether the session may write the packets immediately for this delivery.
    fn are_for(
        &self,
        (delivery, run): (&Delivery, &[Arc<Message>]),
        session: &Session,
        most: usize,
    ) -> bool {
        let (Some((first, count, how, version)), Some(attachment)) =
            (&self.of, &session.attachment)
        else {
            return false;
        };
        (*first, *count) == (delivery.message, run.len())
            && *how == delivery.how
            && *version == attachment.version
            && attachment.most_aliases == 0
            && delivery.number == 0
            && session.queue.is_empty()
            && attachment.again.is_empty()
            && attachment.out.len() + self.bytes.len() <= MAX_WRITE_AHEAD
            && self.bytes.len() <= attachment.most
            && (self.ids.is_empty() || session.has_window((self.ids.len(), self.size), most))
    }

    /// Keeps the packets of a delivery for other clients, if all were written. They follow the first `before` bytes of the
    /// output. Before them, `written` messages were unsent or in flight.
    pub(in crate::session) fn keep(
        &mut self,
        (delivery, run): (&Delivery, &[Arc<Message>]),
        session: &Session,
        (before, written): (usize, usize),
    ) {
        let (Some(attachment), how) = (&session.attachment, &delivery.how) else { return };
        let is_written = session.written() == written + run.len();
        // Only nodes get the stamp of a retained message.
        let is_plain = !how.retain && attachment.most_aliases == 0 && delivery.number == 0;
        if !is_written || !is_plain {
            return;
        }
        let packets = &attachment.out[before..];
        if packets.len() > MAX_WRITE_AHEAD {
            // No client may write as much ahead.
            return;
        }
        self.of = None;
        self.bytes.clear();
        self.bytes.extend_from_slice(packets);
        self.ids.clear();
        self.size = 0;
        if how.qos != QoS::AtMostOnce {
            let mut at = 0;
            for message in run {
                let packet = &self.bytes[at..];
                let longer = packet[1..].iter().take_while(|byte| **byte >= 0x80).count();
                self.ids.push(at + 2 + longer + 2 + message.topic.len());
                self.size += message.size();
                let Ok(Some(frame)) = Frame::split(packet, Frame::MAX_PACKET) else { return };
                at += frame.length();
            }
        }
        // Set last, because copies without all identifiers would repeat those of another client.
        self.of = Some((delivery.message, run.len(), how.clone(), attachment.version));
    }
}
