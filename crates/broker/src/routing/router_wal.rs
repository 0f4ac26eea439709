//! What the router records in the wal: messages that are queued or retained, and for whom. It is under the
//! router's lock, so that its order is the router's.

use phalanx_store::{DeliveryId, Entry, MessageId, Record, SessionId};

use crate::drops::DropReason;
use crate::durable::{Lsn, MAX_COMMIT_BYTES, Wal, flags, put_message};
use crate::message::Message;
use crate::routing::delivery::{Delivery, Identifiers};

/// So many bytes of one message and of those whom it waits for are together. Beyond, the others are noted behind it: a
/// crash between the two leaves a message that some have, and that comes to these again when it is sent again. The
/// journal takes no longer entry, and a message ([`MAX_DURABLE_PACKET`]) is not half as long.
const MAX_ENTRY_BYTES: usize = Entry::MOST_BYTES / 4 * 3;

/// Where something is kept packets are no longer than this, in bytes.
pub(crate) const MAX_DURABLE_PACKET: usize = 128 << 20;

/// The router's part of the wal.
pub(crate) struct RouterWal {
    wal: Wal,
    records: Entry,
    /// Whether somebody waits for any of them; and the lsn of the last records of the cohort that somebody waits for.
    is_awaited: bool,
    lsn: Lsn,
    next_message: u64,
    next_delivery: u64,
}

impl RouterWal {
    /// Numbers are free from these on.
    pub(crate) fn new(wal: Wal, next_message: u64, next_delivery: u64) -> Self {
        let (records, lsn) = (Entry::new(), Lsn::default());
        Self { wal, records, is_awaited: false, lsn, next_message, next_delivery }
    }

    /// Whether anything is kept at all.
    pub(crate) fn is_on(&self) -> bool {
        self.wal.is_enabled()
    }

    /// Whether what would be kept is to be refused.
    pub(crate) fn is_full(&self) -> bool {
        self.wal.is_full()
    }

    /// Why what would be kept is refused.
    pub(crate) fn full_reason(&self) -> DropReason {
        self.wal.reason(DropReason::DiskFull, DropReason::StoreFull)
    }

    /// A message is retained from now on, or none for its topic if it is empty.
    pub(crate) fn retain(&mut self, message: &Message) {
        self.is_awaited |= message.is_awaited(self.wal.is_backlogged());
        if message.payload.is_empty() {
            return self.records.push(&Record::Unretain { topic: &message.topic });
        }
        let number = self.message(message);
        self.records.push(&Record::Retain { topic: &message.topic, message: number });
    }

    /// A message that was retained has expired. Nobody waits for that.
    pub(crate) fn forget(&mut self, message: &Message) {
        if self.is_on() && message.number() != 0 {
            self.records.push(&Record::Unretain { topic: &message.topic });
        }
    }

    /// A message waits for the client of this session.
    pub(crate) fn queue(&mut self, session: u64, message: &Message, delivery: &mut Delivery) {
        self.is_awaited = true;
        let number = self.message(message);
        delivery.number = self.next_delivery;
        self.next_delivery += 1;
        let mut bytes = Vec::new();
        let one;
        let properties: &[u8] = match &delivery.how.identifiers {
            Identifiers::None => &[],
            Identifiers::One([identifier]) => {
                one = identifier.to_le_bytes();
                &one
            }
            Identifiers::Many(many) => {
                many.iter().for_each(|own| bytes.extend_from_slice(&own.to_le_bytes()));
                &bytes
            }
        };
        self.records.push(&Record::Queue {
            session: SessionId(session),
            delivery: DeliveryId(delivery.number),
            message: number,
            options: flags(delivery.how.qos, delivery.how.retain),
            properties,
            phase: Default::default(),
        });
        if self.records.len() >= MAX_ENTRY_BYTES {
            self.next();
        }
    }

    /// A message has come, and all else is said of it.
    pub(crate) fn come(&mut self, message: &Message) {
        if let Some((session, packet)) = message.begun.filter(|(session, _)| *session != 0) {
            let (session, packet) = (SessionId(session), packet.get());
            self.is_awaited = true;
            self.records.push(&Record::Incoming { session, packet });
        }
        self.next();
    }

    /// All is said of a message.
    pub(crate) fn next(&mut self) {
        if self.records.len() >= MAX_COMMIT_BYTES {
            self.append();
        }
    }

    /// All is said of a cohort: the lsn of what somebody waits for of that.
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

    /// The number of a message, which is noted if it was not.
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
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use phalanx::{Graph, sim};
    use phalanx_mqtt::{Delivery, PacketId, Properties, Publish};
    use phalanx_store::{Options, Store};

    use super::*;
    use crate::durable::bounds::BACKLOG_BYTES;
    use crate::session::key::ClientKey;

    const BYTES: usize = 100 << 10;

    /// What is waited for of a message that is retained.
    fn retain(wal: &mut RouterWal, delivery: Delivery) -> Lsn {
        let payload = &[7; BYTES];
        let (retain, duplicate, properties) = (true, false, Properties::NONE);
        let publish = Publish { topic: "t", payload, delivery, retain, duplicate, properties };
        let from = ClientKey { partition: 0, slot: 0, generation: 0 };
        let message = Message::of(&publish, "t", (from, 0), Duration::ZERO);
        wal.retain(&message);
        wal.come(&message);
        wal.end()
    }

    /// How many messages of QoS 0 come before one that is waited for, as much waits for the disk; and whether each is waited for
    /// that comes when nothing does: of QoS 1, and of QoS 0.
    async fn waits(wal: Wal) -> (usize, [bool; 2]) {
        let mut router_wal = RouterWal::new(wal.clone(), 1, 1);
        let at_least_once = Delivery::AtLeastOnce(PacketId::MIN);
        // Nothing goes to the disk before this waits.
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
    fn qos_0_is_waited_for_only_where_much_waits() {
        sim::explore_each(5, |seed| {
            let result = Arc::new(Mutex::new(None));
            let of_world = result.clone();
            sim::run(seed, move |world| {
                let options = Options { salt: Some(seed), ..Options::default() };
                let files = BTreeMap::<String, Vec<u8>>::new();
                let (store, _) =
                    Store::open_in(&files, world.root(), Path::new("/"), options).unwrap();
                let mut graph = Graph::new();
                let journal = store.declare(&mut graph);
                let stage = graph.shared("test", ());
                let wal = Wal::new(journal, stage, u64::MAX, 1);
                world.program(graph, move |start| {
                    let (wal, result) = (wal.clone(), of_world.clone());
                    if start.processor() == 0 {
                        stage.dispatch(move |_| async move {
                            let waits = waits(wal).await;
                            *result.lock().unwrap() = Some(waits);
                        })?;
                    }
                    Ok(())
                });
            });
            let (before, of_each) = result.lock().unwrap().take().expect("it has not panicked");
            // The one that goes beyond is not waited for, but the next.
            assert_eq!(before, BACKLOG_BYTES / BYTES + 1);
            assert_eq!(of_each, [true, false]);
        });
    }
}
