//! SUBSCRIBE and UNSUBSCRIBE for announced filters.
//!
//! A lane begins with all filters, followed by PINGREQ. The other node then removes subscriptions of earlier lanes that
//! were not repeated before PINGREQ. Changes follow in batches; each batch waits until the other node has answered the
//! previous one.

use phalanx_mqtt::{
    Packet, PacketId, Properties, Property, PropertyBuffer, QoS, Reason, RetainHandling, Subscribe,
    SubscribeOptions, SubscriptionBuffer, Unsubscribe, Version,
};

use crate::content::parse::{self, PacketFilter};
use crate::content::path::path;
use crate::lane::Lane;
use crate::model::subscriptions::group_id::group_id;

/// Maximum number of filters in one batch and in one packet, and maximum size of a packet's filters in bytes. If a node's
/// maximum packet size is small, the filters take at most half of it, because the answer has to fit, too.
const MAX_BATCH: usize = 1024;
const MAX_FILTERS: usize = 256;
const MAX_PACKET_BYTES: usize = 32 * 1024;

/// Bytes of a filter in a packet in addition to its text: its length and options.
const FILTER_BYTES: usize = 3;

/// The other node gets messages as they were published, because it applies the options of its clients itself.
const ANNOUNCEMENT_OPTIONS: SubscribeOptions = SubscribeOptions {
    qos: QoS::ExactlyOnce,
    no_local: false,
    retain_as_published: true,
    retain_handling: RetainHandling::DoNotSend,
};

/// The packet identifier of all announcements. One suffices, because both nodes process packets in order.
const ANNOUNCEMENT_ID: PacketId = PacketId::MIN;

impl Lane {
    /// The packet identifier of an UNSUBSCRIBE that the lane injects into the session here.
    pub(super) const INJECTED_ID: PacketId = PacketId::MAX;

    pub(super) fn has_announcements(&self) -> bool {
        let interest = &self.options.peers.interest;
        self.unanswered.get() == 0
            && (!self.is_announced.get() || interest.has_changes(&self.options.node))
    }

    /// Appends the next batch of announcements, if the previous one was answered.
    pub(super) fn announce(&self, out: &mut Vec<u8>) {
        if !self.has_announcements() {
            return;
        }
        let interest = &self.options.peers.interest;
        let changes = interest.take(&self.options.node, MAX_BATCH);
        // Added filters come first, because they may replace removed ones.
        let max_bytes = self.max_announced_bytes();
        let added = packets(&changes.added, true, ANNOUNCEMENT_ID, max_bytes, out);
        let removed = packets(&changes.removed, false, ANNOUNCEMENT_ID, max_bytes, out);
        self.unanswered.set(added + removed);
        self.version.set(changes.version);
        if changes.version.is_some() && !self.is_announced.replace(true) {
            // Cannot fail: PINGREQ is short.
            let _ = Packet::PingReq.encode(Version::V5, out);
        }
        if self.unanswered.get() == 0 {
            self.complete_batch();
        }
    }

    /// Handles the other node's answer to a packet.
    pub(super) fn handle_answer(&self, reasons: &[u8]) {
        if let Some(refused) =
            reasons.iter().map(|reason| Reason(*reason)).find(|reason| reason.is_failure())
        {
            // Without this subscription the node would not forward messages. The next lane tries again.
            return self.close(&format!("the node refuses a topic filter: {refused}"));
        }
        self.unanswered.set(self.unanswered.get().saturating_sub(1));
        if self.unanswered.get() == 0 {
            self.complete_batch();
            self.wake_sender();
        }
    }

    fn complete_batch(&self) {
        if let Some(version) = self.version.take() {
            self.options.peers.interest.set_version(&self.options.node, version);
        }
    }

    /// Records the filters that the other node announces.
    pub(super) fn record_announced(&self, subscribe: &Subscribe<'_>) {
        let mut known = self.known.borrow_mut();
        let Ok(of_packet) = PacketFilter::from_properties(subscribe.properties) else { return };
        if !known.is_empty() {
            for (filter, _) in subscribe.filters.iter() {
                known.remove(&parse::key(filter, of_packet));
            }
        }
    }

    /// Removes the filters of earlier lanes, after the other node has announced all current ones.
    pub(super) fn remove_stale(&self) {
        let mut stale: Vec<_> = self.known.take().into_iter().collect();
        // Sorted, so that simulations are reproducible.
        stale.sort_unstable();
        let (max_bytes, mut injected) = (self.max_announced_bytes(), self.injected.borrow_mut());
        packets(&stale, false, Self::INJECTED_ID, max_bytes, &mut injected);
    }

    /// Maximum size of the filters of a packet, in bytes.
    pub(super) fn max_announced_bytes(&self) -> usize {
        MAX_PACKET_BYTES
            .min(self.options.max_incoming_packet.min(self.options.max_outgoing_packet) / 2)
    }
}

/// Appends packets for these keys, with up to `max_bytes` bytes of filters. Returns their number.
fn packets(
    keys: &[Box<str>],
    is_added: bool,
    id: PacketId,
    max_bytes: usize,
    out: &mut Vec<u8>,
) -> usize {
    let (mut count, mut filters, mut bytes) = (0, SubscriptionBuffer::new(), 0);
    let mut batched = 0;
    for key in keys {
        let (filter, own) = parse::key_parts(key);
        let is_shared = path(key).is_some_and(|path| path.group.is_some());
        let mut properties = PropertyBuffer::new();
        let mut push = |property| {
            // Cannot fail: the property came from a packet.
            let _ = properties.push(property);
        };
        if is_added && is_shared {
            push(Property::SubscriptionIdentifier(group_id(key)));
        }
        own.properties().for_each(|(name, value)| push(Property::User(name, value)));
        if properties.get().is_empty() {
            let size = filter.len() + FILTER_BYTES;
            if batched == MAX_FILTERS.min(max_bytes) || batched > 0 && bytes + size > max_bytes {
                count += packet(&filters, Properties::NONE, is_added, id, out);
                (filters, batched, bytes) = (SubscriptionBuffer::new(), 0, 0);
            }
            // Cannot fail: the filter came from a packet.
            let _ = filters.push(filter, ANNOUNCEMENT_OPTIONS);
            (batched, bytes) = (batched + 1, bytes + size);
        } else {
            let mut only = SubscriptionBuffer::new();
            let _ = only.push(filter, ANNOUNCEMENT_OPTIONS);
            count += packet(&only, properties.get(), is_added, id, out);
        }
    }
    match batched {
        0 => count,
        _ => count + packet(&filters, Properties::NONE, is_added, id, out),
    }
}

fn packet(
    filters: &SubscriptionBuffer,
    properties: Properties<'_>,
    is_added: bool,
    id: PacketId,
    out: &mut Vec<u8>,
) -> usize {
    let packet = match is_added {
        true => Packet::Subscribe(Subscribe { id, filters: filters.to_subscribe(), properties }),
        false => {
            Packet::Unsubscribe(Unsubscribe { id, filters: filters.to_unsubscribe(), properties })
        }
    };
    usize::from(packet.encode(Version::V5, out).is_ok())
}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::Frame;

    use super::*;

    #[test]
    fn announcements_fit_small_packets() {
        let keys: Vec<Box<str>> = (0..300).map(|n| format!("topic/{n}").into()).collect();
        for max_bytes in [64, 1024, MAX_PACKET_BYTES] {
            let (mut out, mut found) = (Vec::new(), Vec::new());
            let count = packets(&keys, true, ANNOUNCEMENT_ID, max_bytes, &mut out);
            let (mut at, mut packets) = (0, 0);
            while let Some(frame) = Frame::split(&out[at..], max_bytes + 8).unwrap() {
                at += frame.length();
                packets += 1;
                let Packet::Subscribe(own) = Packet::decode(frame, Version::V5).unwrap() else {
                    panic!("not SUBSCRIBE");
                };
                found.extend(own.filters.iter().map(|(filter, _)| Box::<str>::from(filter)));
            }
            assert_eq!((at, packets), (out.len(), count));
            assert_eq!(found, keys);
        }
    }
}
