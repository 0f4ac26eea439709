//! The QoS 1 and 2 messages that were written to a client, until it completes them.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use phalanx_mqtt::{PacketId, QoS};

use crate::model::delivery::How;
use crate::model::maps::small_map::SmallMap;
use crate::model::message::Message;

/// The number of packet identifiers.
const IDS: u64 = u16::MAX as u64;

/// A client's messages in flight, by packet identifier.
#[derive(Default)]
pub(crate) struct InflightTable {
    messages: SmallMap<PacketId, Inflight>,
    bytes: usize,
    /// The next message's position in the order of writing. It determines the packet identifier.
    sequence: u64,
}

/// A message that was written but is not completed.
pub(crate) struct Inflight {
    /// `None` once the client has received the message, and only its packet identifier is in use.
    pub(crate) message: Option<(Arc<Message>, How)>,
    /// Position in the order of writing.
    pub(crate) sequence: u64,
    /// The delivery's ID in the journal; 0 if not stored.
    pub(crate) number: u64,
}

impl Inflight {
    /// The QoS of the message; `None` once the client has received it.
    pub(crate) fn qos(&self) -> Option<QoS> {
        self.message.as_ref().map(|(_, how)| how.qos)
    }

    fn size(&self) -> usize {
        self.message.as_ref().map_or(0, |(message, _)| message.size())
    }
}

impl InflightTable {
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// The size of the messages that the client has not received.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn get(&self, id: PacketId) -> Option<&Inflight> {
        self.messages.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PacketId, &Inflight)> {
        self.messages.iter().map(|(id, inflight)| (*id, inflight))
    }

    /// Adds a message. Returns its packet identifier, which no other message in flight has.
    #[inline]
    pub(crate) fn add(&mut self, message: &Arc<Message>, how: &How, number: u64) -> PacketId {
        loop {
            let sequence = self.sequence;
            self.sequence += 1;
            let id = PacketId::MIN.saturating_add((sequence % IDS) as u16);
            if let Entry::Vacant(place) = self.messages.entry(id) {
                self.bytes += message.size();
                let message = Some((message.clone(), how.clone()));
                place.insert(Inflight { message, sequence, number });
                return id;
            }
        }
    }

    /// Takes a message whose client has received it. Its packet identifier stays in use.
    pub(crate) fn take_message(&mut self, id: PacketId) -> Option<Arc<Message>> {
        let (message, _) = self.messages.get_mut(&id)?.message.take()?;
        self.bytes -= message.size();
        Some(message)
    }

    pub(crate) fn remove(&mut self, id: PacketId) -> Option<Inflight> {
        self.remove_if(id, |_| true)
    }

    /// Removes the entry of a packet identifier if it satisfies `condition`.
    #[inline]
    pub(crate) fn remove_if(
        &mut self,
        id: PacketId,
        condition: impl FnOnce(&Inflight) -> bool,
    ) -> Option<Inflight> {
        let removed = self.messages.remove_if(id, condition)?;
        self.bytes -= removed.size();
        Some(removed)
    }
}

/// The messages of a stored session, in the order of writing.
impl FromIterator<(PacketId, Inflight)> for InflightTable {
    fn from_iter<I: IntoIterator<Item = (PacketId, Inflight)>>(all: I) -> Self {
        let mut table = Self::default();
        for (id, inflight) in all {
            table.bytes += inflight.size();
            // The next message gets the next identifier, and follows these messages, of which there are at most `IDS`.
            table.sequence = IDS + u64::from(id.get());
            table.messages.insert(id, inflight);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::Properties;

    use super::*;
    use crate::model::message::StoredMessage;

    #[test]
    fn a_packet_identifier_in_use_is_skipped() {
        let (qos, properties) = (QoS::AtLeastOnce, Properties::NONE);
        let stored = StoredMessage { topic: "t", payload: b"", properties, qos, retain: false };
        let (message, how) = (Arc::new(Message::from_stored(1, &stored, None)), How::default());
        let mut table = InflightTable::default();
        let add = |table: &mut InflightTable| table.add(&message, &how, 0).get();
        assert_eq!([add(&mut table), add(&mut table)], [1, 2]);
        let id = |id| PacketId::new(id).unwrap();
        assert!(
            table.remove_if(id(1), |inflight| inflight.number != 0).is_none() && table.len() == 2
        );
        assert!(table.remove(id(1)).is_some() && table.remove(id(1)).is_none());
        table.sequence = IDS;
        assert_eq!([add(&mut table), add(&mut table)], [1, 3], "2 is in use");
        let restored = |id| (id, Inflight { message: None, sequence: 0, number: 0 });
        let mut table: InflightTable = [id(7), id(u16::MAX)].map(restored).into_iter().collect();
        assert_eq!([add(&mut table), add(&mut table)], [1, 2]);
        assert!(table.iter().all(|(id, inflight)| id.get() > 2 || inflight.sequence > IDS));
    }
}
