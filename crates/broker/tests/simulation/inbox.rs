//! What a client gets, and what it answers by the rules.

use std::collections::BTreeSet;

use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, Publish};

/// What it would keep of that on a disk of its own.
#[derive(Clone, Default)]
pub(crate) struct Inbox {
    /// Packets that it has got.
    pub(crate) heard: u64,
    /// Messages of QoS 2 that it has, and whose packet identifiers are still taken.
    begun: BTreeSet<PacketId>,
}

/// A message that is new, if it is; and what is to be said, once that is noted.
pub(crate) type Taken<'p> = (Option<Publish<'p>>, Option<Packet<'static>>);

impl Inbox {
    /// Takes a packet of a message's way.
    ///
    /// # Panics
    /// When it is another.
    pub(crate) fn take<'p>(&mut self, packet: Packet<'p>) -> Taken<'p> {
        match packet {
            Packet::Publish(publish) => match publish.delivery {
                Delivery::AtMostOnce => (Some(publish), None),
                Delivery::AtLeastOnce(id) => (Some(publish), Some(Packet::PubAck(Ack::of(id)))),
                Delivery::ExactlyOnce(id) => {
                    let is_new = self.begun.insert(id);
                    (is_new.then_some(publish), Some(Packet::PubRec(Ack::of(id))))
                }
            },
            Packet::PubRel(ack) => {
                self.begun.remove(&ack.id);
                (None, Some(Packet::PubComp(Ack::of(ack.id))))
            }
            other => panic!("a subscriber gets {other:?}"),
        }
    }

    /// Whether nothing is in the middle of QoS 2.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.begun.is_empty()
    }
}
