//! The messages that a client has received, and the acknowledgements that it owes.

use std::collections::BTreeSet;

use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, Publish};

/// The client's persistent state.
#[derive(Clone, Default)]
pub(crate) struct Inbox {
    /// The number of packets received.
    pub(crate) packets_received: u64,
    /// Packet identifiers of QoS 2 messages that are received but not released.
    unreleased: BTreeSet<PacketId>,
}

/// The message, if it is new, and the answer to send once the client has stored it.
pub(crate) type Outcome<'p> = (Option<Publish<'p>>, Option<Packet<'static>>);

impl Inbox {
    /// Processes a packet of a delivery.
    ///
    /// # Panics
    ///
    /// On any other packet.
    pub(crate) fn take<'p>(&mut self, packet: Packet<'p>) -> Outcome<'p> {
        match packet {
            Packet::Publish(publish) => match publish.delivery {
                Delivery::AtMostOnce => (Some(publish), None),
                Delivery::AtLeastOnce(id) => {
                    (Some(publish), Some(Packet::PubAck(Ack::success(id))))
                }
                Delivery::ExactlyOnce(id) => {
                    let is_new = self.unreleased.insert(id);
                    (is_new.then_some(publish), Some(Packet::PubRec(Ack::success(id))))
                }
            },
            Packet::PubRel(ack) => {
                self.unreleased.remove(&ack.id);
                (None, Some(Packet::PubComp(Ack::success(ack.id))))
            }
            other => panic!("a subscriber gets {other:?}"),
        }
    }

    /// Whether no QoS 2 delivery is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.unreleased.is_empty()
    }
}
