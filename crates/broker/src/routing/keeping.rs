//! What the router notes in the ledger: messages that are queued or retained, and for whom. It is under the
//! router's lock, so that its order is the router's.

use phalanx_store::{DeliveryId, Entry, MessageId, Record, SessionId};

use crate::drops::DropReason;
use crate::durable::{Ledger, PIECE, Ticket, flags, put_message};
use crate::message::Message;
use crate::routing::delivery::{Delivery, Identifiers};

/// So many bytes of one message and of those whom it waits for are together. Beyond, the others are noted behind it: a
/// crash between the two leaves a message that some have, and that comes to these again when it is sent again. The
/// journal takes no longer entry, and a message ([`MOST_PACKET`]) is not half as long.
const TOGETHER: usize = Entry::MOST_BYTES / 4 * 3;

/// Where something is kept packets are no longer than this, in bytes.
pub(crate) const MOST_PACKET: usize = 128 << 20;

/// The router's part of the ledger.
pub(crate) struct Keeping {
    ledger: Ledger,
    notes: Entry,
    /// Whether somebody waits for any of them; and the ticket of the last notes of the cohort that somebody waits for.
    is_awaited: bool,
    ticket: Ticket,
    next_message: u64,
    next_delivery: u64,
}

impl Keeping {
    /// Numbers are free from these on.
    pub(crate) fn new(ledger: Ledger, next_message: u64, next_delivery: u64) -> Self {
        let (notes, ticket) = (Entry::new(), Ticket::default());
        Self { ledger, notes, is_awaited: false, ticket, next_message, next_delivery }
    }

    /// Whether anything is kept at all.
    pub(crate) fn is_on(&self) -> bool {
        self.ledger.keeps()
    }

    /// Whether what would be kept is to be refused.
    pub(crate) fn is_full(&self) -> bool {
        self.ledger.is_full()
    }

    /// Why what would be kept is refused.
    pub(crate) fn full_reason(&self) -> DropReason {
        self.ledger.reason(DropReason::DiskFull, DropReason::StoreFull)
    }

    /// A message is retained from now on, or none for its topic if it is empty.
    pub(crate) fn retain(&mut self, message: &Message) {
        self.is_awaited |= message.is_awaited(self.ledger.is_long());
        if message.payload.is_empty() {
            return self.notes.push(&Record::Unretain { topic: &message.topic });
        }
        let number = self.message(message);
        self.notes.push(&Record::Retain { topic: &message.topic, message: number });
    }

    /// A message that was retained has expired. Nobody waits for that.
    pub(crate) fn forget(&mut self, message: &Message) {
        if self.is_on() && message.number() != 0 {
            self.notes.push(&Record::Unretain { topic: &message.topic });
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
        self.notes.push(&Record::Queue {
            session: SessionId(session),
            delivery: DeliveryId(delivery.number),
            message: number,
            options: flags(delivery.how.qos, delivery.how.retain),
            properties,
            phase: Default::default(),
        });
        if self.notes.len() >= TOGETHER {
            self.next();
        }
    }

    /// A message has come, and all else is said of it.
    pub(crate) fn come(&mut self, message: &Message) {
        if let Some((session, packet)) = message.begun.filter(|(session, _)| *session != 0) {
            let (session, packet) = (SessionId(session), packet.get());
            self.is_awaited = true;
            self.notes.push(&Record::Incoming { session, packet });
        }
        self.next();
    }

    /// All is said of a message.
    pub(crate) fn next(&mut self) {
        if self.notes.len() >= PIECE {
            self.note();
        }
    }

    /// All is said of a cohort: the ticket of what somebody waits for of that.
    pub(crate) fn end(&mut self) -> Ticket {
        if !self.notes.is_empty() {
            self.note();
        }
        std::mem::take(&mut self.ticket)
    }

    fn note(&mut self) {
        let ticket = self.ledger.note(&mut self.notes);
        if std::mem::take(&mut self.is_awaited) {
            self.ticket = ticket;
        }
    }

    /// The number of a message, which is noted if it was not.
    fn message(&mut self, message: &Message) -> MessageId {
        if message.number() == 0 {
            message.set_number(self.next_message);
            self.next_message += 1;
            put_message(&mut self.notes, message.number(), message);
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
    use crate::durable::bounds::LONG;
    use crate::session::key::ClientKey;

    const BYTES: usize = 100 << 10;

    /// What is waited for of a message that is retained.
    fn retain(keeping: &mut Keeping, delivery: Delivery) -> Ticket {
        let payload = &[7; BYTES];
        let (retain, duplicate, properties) = (true, false, Properties::NONE);
        let publish = Publish { topic: "t", payload, delivery, retain, duplicate, properties };
        let from = ClientKey { partition: 0, slot: 0, generation: 0 };
        let message = Message::of(&publish, "t", (from, 0), Duration::ZERO);
        keeping.retain(&message);
        keeping.come(&message);
        keeping.end()
    }

    /// How many messages of QoS 0 come before one that is waited for, as much waits for the disk; and whether each is waited for
    /// that comes when nothing does: of QoS 1, and of QoS 0.
    async fn waits(ledger: Ledger) -> (usize, [bool; 2]) {
        let mut keeping = Keeping::new(ledger.clone(), 1, 1);
        let at_least_once = Delivery::AtLeastOnce(PacketId::MIN);
        // Nothing goes to the disk before this waits.
        let tickets = (0..1000).map(|_| retain(&mut keeping, Delivery::AtMostOnce));
        let before = tickets.take_while(|ticket| *ticket == Ticket::default()).count();
        ledger.durable(ledger.latest()).await.unwrap();
        let of_each = [at_least_once, Delivery::AtMostOnce].map(|delivery| {
            let ticket = retain(&mut keeping, delivery);
            ticket != Ticket::default()
        });
        ledger.durable(ledger.latest()).await.unwrap();
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
                let ledger = Ledger::new(journal, stage, u64::MAX, 1);
                world.program(graph, move |start| {
                    let (ledger, result) = (ledger.clone(), of_world.clone());
                    if start.processor() == 0 {
                        stage.dispatch(move |_| async move {
                            let waits = waits(ledger).await;
                            *result.lock().unwrap() = Some(waits);
                        })?;
                    }
                    Ok(())
                });
            });
            let (before, of_each) = result.lock().unwrap().take().expect("it has not panicked");
            // The one that goes beyond is not waited for, but the next.
            assert_eq!(before, LONG / BYTES + 1);
            assert_eq!(of_each, [true, false]);
        });
    }
}
