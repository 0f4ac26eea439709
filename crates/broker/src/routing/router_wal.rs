//! The router's records in the WAL: queued and retained messages. They are written under the router's lock, so they are
//! in the order of routing.

use phalanx_store::{DeliveryId, Entry, MessageId, Record, SessionId};

use crate::durable::{Lsn, MAX_COMMIT_BYTES, Wal, flags, put_message};
use crate::events::drops::DropReason;
use crate::model::delivery::Delivery;
use crate::model::message::Message;
use crate::requests::FirstIds;

/// Maximum size of an entry with one message and its deliveries. The journal limits the size of entries, and a message
/// ([`MAX_DURABLE_PACKET`](crate::config::MAX_DURABLE_PACKET)) takes less than half of that limit. Further deliveries
/// follow in another entry. After a crash between the two, some receivers have the message, and the publisher's
/// retransmission reaches the others.
const MAX_ENTRY_BYTES: usize = Entry::MAX_BYTES / 4 * 3;

/// Collects the router's records and appends them to the WAL.
pub(crate) struct RouterWal {
    wal: Wal,
    records: Entry,
    /// A buffer for the subscription identifiers of a delivery.
    identifiers: Vec<u8>,
    /// Whether a publisher waits for `records`, and the LSN of the cohort's last records for which a publisher waits.
    is_awaited: bool,
    lsn: Lsn,
    /// The session and delivery from which the next message was moved.
    moved: Option<(SessionId, DeliveryId)>,
    next_message: u64,
    next_delivery: u64,
}

impl RouterWal {
    /// Creates the recorder; the arguments are the lowest unused IDs.
    pub(crate) fn new(wal: Wal, next_message: u64, next_delivery: u64) -> Self {
        Self {
            wal,
            records: Entry::new(),
            identifiers: Vec::new(),
            is_awaited: false,
            lsn: Lsn::default(),
            moved: None,
            next_message,
            next_delivery,
        }
    }

    /// Whether persistence is enabled.
    pub(crate) fn is_on(&self) -> bool {
        self.wal.is_enabled()
    }

    /// Whether additions must be refused.
    pub(crate) fn is_full(&self) -> bool {
        self.wal.is_full()
    }

    /// The reason for the refusal of an addition.
    pub(crate) fn full_reason(&self) -> DropReason {
        self.wal.reason(DropReason::DiskFull, DropReason::StoreFull)
    }

    /// Records a retained message or a remembered deletion, after `published` came.
    pub(crate) fn retain(&mut self, message: &Message, published: &Message) {
        self.is_awaited |= published.is_awaited(self.wal.is_backlogged());
        let number = self.message(message);
        self.records.push(&Record::Retain { topic: &message.topic, message: number });
    }

    /// Records that a message deleted the topic's retained message, or replaced it and has expired since.
    pub(crate) fn unretain(&mut self, message: &Message) {
        self.is_awaited |= message.is_awaited(self.wal.is_backlogged());
        self.records.push(&Record::Unretain { topic: &message.topic });
    }

    /// Records the expiry of a retained message. No operation waits for this.
    pub(crate) fn forget(&mut self, message: &Message) {
        if self.is_on() && message.number() != 0 {
            self.records.push(&Record::Unretain { topic: &message.topic });
        }
    }

    /// Records a queued message of a persistent session.
    pub(crate) fn queue(&mut self, session: u64, message: &Message, delivery: &mut Delivery) {
        self.is_awaited = true;
        let number = self.message(message);
        delivery.number = self.next_delivery;
        self.next_delivery += 1;
        self.identifiers.clear();
        delivery.how.identifiers.write(&mut self.identifiers);
        self.records.push(&Record::Queue {
            session: SessionId(session),
            delivery: DeliveryId(delivery.number),
            message: number,
            options: flags(delivery.how.qos, delivery.how.retain),
            properties: &self.identifiers,
            phase: Default::default(),
        });
        if self.records.len() >= MAX_ENTRY_BYTES {
            self.next();
        }
    }

    /// Takes `count` message IDs and as many delivery IDs. Returns the first of each.
    pub(crate) fn reserve(&mut self, count: u64) -> FirstIds {
        let first = FirstIds { message: self.next_message, delivery: self.next_delivery };
        self.next_message += count;
        self.next_delivery += count;
        first
    }

    /// Notes that the next message was taken from the queue of a session.
    pub(crate) fn moves(&mut self, session: u64, delivery: u64) {
        self.moved = Some((SessionId(session), DeliveryId(delivery)));
    }

    /// Records the end of the handover whose session has this ID.
    pub(crate) fn handed_over(&mut self, session: u64) {
        self.is_awaited = true;
        self.records.push(&Record::SessionEnd { session: SessionId(session) });
    }

    /// Records the arrival of a message, after its deliveries.
    pub(crate) fn come(&mut self, message: &Message) {
        if let Some((session, packet)) = message.begun.filter(|(session, _)| *session != 0) {
            let (session, packet) = (SessionId(session), packet.get());
            self.is_awaited = true;
            self.records.push(&Record::Incoming { session, packet });
        }
        self.passed();
    }

    /// Records that a message was moved from the queue noted by [`moves`](Self::moves), after its delivery. Unlike
    /// [`come`](Self::come), it records no packet identifier: the publisher may have released it and may use it for
    /// another message.
    pub(crate) fn passed(&mut self) {
        if let Some((session, delivery)) = self.moved.take() {
            self.records.push(&Record::Done { session, delivery });
        }
        self.next();
    }

    /// The records that have not been appended yet.
    #[cfg(test)]
    pub(super) fn recorded(&self) -> &Entry {
        &self.records
    }

    /// Appends the records to the WAL if they exceed [`MAX_COMMIT_BYTES`]. Called after each message.
    pub(crate) fn next(&mut self) {
        if self.records.len() >= MAX_COMMIT_BYTES {
            self.append();
        }
    }

    /// Makes the cohort's requests wait for all records so far.
    pub(crate) fn await_all(&mut self) {
        if !self.records.is_empty() {
            self.append();
        }
        self.lsn = self.lsn.max(self.wal.latest());
    }

    /// Appends the cohort's records. Returns the LSN for which its publishers wait.
    pub(crate) fn end(&mut self) -> Lsn {
        if !self.records.is_empty() {
            self.append();
        }
        std::mem::take(&mut self.lsn)
    }

    fn append(&mut self) {
        let lsn = self.wal.append(&mut self.records);
        if std::mem::take(&mut self.is_awaited) {
            self.lsn = lsn;
        }
    }

    /// Returns the ID of a message, and records the message if it is new.
    fn message(&mut self, message: &Message) -> MessageId {
        if message.number() == 0 {
            message.set_number(self.next_message);
            self.next_message += 1;
            put_message(&mut self.records, message.number(), message);
        }
        MessageId(message.number())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use phalanx::sim;
    use phalanx_mqtt::{Delivery, PacketId, Properties, Publish};

    use super::*;
    use crate::durable::bounds::BACKLOG_BYTES;
    use crate::durable::simulated::with_journal;
    use crate::model::client_key::ClientKey;

    const BYTES: usize = 100 << 10;

    /// The LSN for which the publisher of a retained message waits.
    fn retain(wal: &mut RouterWal, delivery: Delivery) -> Lsn {
        let payload = &[7; BYTES];
        let (retain, duplicate, properties) = (true, false, Properties::NONE);
        let publish = Publish { topic: "t", payload, delivery, retain, duplicate, properties };
        let from = ClientKey { partition: 0, slot: 0, generation: 0 };
        let message = Message::of(&publish, "t", (from, 0), Duration::ZERO);
        wal.retain(&message, &message);
        wal.come(&message);
        wal.end()
    }

    /// Returns the number of QoS 0 messages until a publisher has to wait, and whether publishers of QoS 1 and of QoS 0
    /// have to wait while the disk is idle.
    async fn waits(wal: Wal) -> (usize, [bool; 2]) {
        let mut router_wal = RouterWal::new(wal.clone(), 1, 1);
        let at_least_once = Delivery::AtLeastOnce(PacketId::MIN);
        // The disk makes no progress before this operation waits.
        let lsns = (0..1000).map(|_| retain(&mut router_wal, Delivery::AtMostOnce));
        let before = lsns.take_while(|lsn| *lsn == Lsn::default()).count();
        wal.durable(wal.latest()).await.unwrap();
        let of_each = [at_least_once, Delivery::AtMostOnce].map(|delivery| {
            let lsn = retain(&mut router_wal, delivery);
            lsn != Lsn::default()
        });
        wal.durable(wal.latest()).await.unwrap();
        (before, of_each)
    }

    #[test]
    fn qos_0_waits_only_for_a_long_queue() {
        sim::explore_each(5, |seed| {
            let (before, of_each) = with_journal(seed, waits);
            // The publisher of the message that exceeds the limit does not wait; the next one does.
            assert_eq!(before, BACKLOG_BYTES / BYTES + 1);
            assert_eq!(of_each, [true, false]);
        });
    }
}
