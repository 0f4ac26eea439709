//! What the router notes in the ledger: messages that are queued or retained, and for whom. It is under the
//! router's lock, so that its order is the router's.

use phalanx_store::{DeliveryId, Entry, MessageId, Record, SessionId};

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
    ticket: Ticket,
    next_message: u64,
    next_delivery: u64,
}

impl Keeping {
    /// Numbers are free from these on.
    pub(crate) fn new(ledger: Ledger, next_message: u64, next_delivery: u64) -> Self {
        let (notes, ticket) = (Entry::new(), Ticket::default());
        Self { ledger, notes, ticket, next_message, next_delivery }
    }

    /// Whether anything is kept at all.
    pub(crate) fn is_on(&self) -> bool {
        self.ledger.keeps()
    }

    /// Whether what would be kept is to be refused.
    pub(crate) fn is_full(&self) -> bool {
        self.ledger.is_full()
    }

    /// A message is retained from now on, or none for its topic if it is empty.
    pub(crate) fn retain(&mut self, message: &Message) {
        if message.payload.is_empty() {
            return self.notes.push(&Record::Unretain { topic: &message.topic });
        }
        let number = self.message(message);
        self.notes.push(&Record::Retain { topic: &message.topic, message: number });
    }

    /// A message that was retained has expired.
    pub(crate) fn forget(&mut self, message: &Message) {
        if self.is_on() && message.number() != 0 {
            self.notes.push(&Record::Unretain { topic: &message.topic });
        }
    }

    /// A message waits for the client of this session.
    pub(crate) fn queue(&mut self, session: u64, message: &Message, delivery: &mut Delivery) {
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
            self.notes.push(&Record::Incoming { session, packet });
        }
        self.next();
    }

    /// All is said of a message.
    pub(crate) fn next(&mut self) {
        if self.notes.len() >= PIECE {
            self.ticket = self.ledger.note(&mut self.notes);
        }
    }

    /// All is said of a cohort: the ticket of what was noted for it.
    pub(crate) fn end(&mut self) -> Ticket {
        if !self.notes.is_empty() {
            self.ticket = self.ledger.note(&mut self.notes);
        }
        std::mem::take(&mut self.ticket)
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
