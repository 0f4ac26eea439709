//! What a broker wants to keep, said in records: each changes one thing.
//!
//! A thing is put by one record, and put anew as a whole by the next of its kind; another takes it
//! away. What a record does not know (the options of a subscription, the properties of a message) it
//! carries as bytes: the store knows no protocol.

use crate::wire::{Reader, put_bytes, put_number};

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);
    )*};
}

numbers! {
    /// Names a session, for ever: never given twice. [`Recovered`](crate::Recovered) says from which
    /// number on they are free.
    SessionId,
    /// Names a message, as a [`SessionId`] a session.
    MessageId,
    /// Names what is queued for a session, and says its place: a session's queue is in the order of
    /// these numbers. Not to be given twice in a session.
    DeliveryId,
}

/// How far a delivery has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It waits.
    #[default]
    Queued,
    /// It was sent, with this packet identifier.
    Sent(u16),
    /// Its receiver has said that it has the message, which need not be kept for it any more; the
    /// packet identifier is still in use.
    Received(u16),
}

/// One change. It borrows what it says.
///
/// ```
/// use phalanx_store::{Entry, MessageId, Record};
///
/// let mut entry = Entry::new();
/// let message = MessageId(7);
/// let (topic, payload) = ("sun/rises", &b"06:12"[..]);
/// entry.push(&Record::Message { message, topic, payload, properties: &[], flags: 0, expires: 0 });
/// entry.push(&Record::Retain { topic, message });
/// assert_eq!(entry.records().count(), 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record<'a> {
    /// Puts a session. What else is said of it comes later, or in the same entry: nothing is kept of a
    /// session that is not there. Where its first record is refused, its number is not to be used.
    Session {
        /// Which.
        session: SessionId,
        /// The name that its client has given itself.
        client: &'a str,
        /// For how many seconds it is kept without a connection; [`u32::MAX`] for ever.
        expiry: u32,
        /// When its connection ended, in seconds since 1970; 0 while it has one.
        left: u64,
        /// What is published when it is lost, as the broker writes it. May be empty.
        will: &'a [u8],
    },
    /// Takes a session away, with its subscriptions and its queue.
    SessionEnd {
        /// Which.
        session: SessionId,
    },
    /// Puts a subscription.
    Subscribe {
        /// Whose.
        session: SessionId,
        /// The filter as the client gave it: with the session, what names the subscription.
        filter: &'a str,
        /// As the broker writes them.
        options: u8,
        /// The client's number for it; 0 for none.
        identifier: u32,
        /// A condition on the message's content, as text. Empty for none.
        condition: &'a str,
    },
    /// Takes a subscription away.
    Unsubscribe {
        /// Whose.
        session: SessionId,
        /// As it was given.
        filter: &'a str,
    },
    /// Puts a message. It is kept for as long as it is queued or retained, and not at all when
    /// nothing of this entry queues or retains it.
    Message {
        /// Which.
        message: MessageId,
        /// What it is about.
        topic: &'a str,
        /// What it says.
        payload: &'a [u8],
        /// As the broker writes them.
        properties: &'a [u8],
        /// As the broker writes them.
        flags: u8,
        /// When it expires, as the broker writes it; 0 for never.
        expires: u64,
    },
    /// Retains a message, in place of the topic's last one.
    Retain {
        /// The topic.
        topic: &'a str,
        /// Of this entry, or queued or retained already.
        message: MessageId,
    },
    /// Retains no message for a topic any more.
    Unretain {
        /// The topic.
        topic: &'a str,
    },
    /// Queues a message for a session.
    Queue {
        /// For whom.
        session: SessionId,
        /// Its place in the queue.
        delivery: DeliveryId,
        /// Of this entry, or queued or retained already. What is neither is not kept: somebody who
        /// cannot know puts the message anew, by another number.
        message: MessageId,
        /// As the broker writes them: the quality of service, say.
        options: u8,
        /// As the broker writes them: identifiers of the subscriptions, say.
        properties: &'a [u8],
        /// How far it has come.
        phase: Phase,
    },
    /// A delivery was sent, or is about to be.
    Sent {
        /// To whom.
        session: SessionId,
        /// Which.
        delivery: DeliveryId,
        /// The packet identifier that it has.
        packet: u16,
    },
    /// The receiver has said that it has the message; see [`Phase::Received`].
    Received {
        /// Who.
        session: SessionId,
        /// Which.
        delivery: DeliveryId,
    },
    /// A delivery is over, or given up.
    Done {
        /// For whom it was.
        session: SessionId,
        /// Which.
        delivery: DeliveryId,
    },
    /// A message that must not be taken twice was taken from a session's client.
    Incoming {
        /// From whom.
        session: SessionId,
        /// The packet identifier that it had.
        packet: u16,
    },
    /// The client has let go of the packet identifier.
    IncomingDone {
        /// Who.
        session: SessionId,
        /// Which.
        packet: u16,
    },
}

mod tag {
    pub(super) const SESSION: u8 = 1;
    pub(super) const SESSION_END: u8 = 2;
    pub(super) const SUBSCRIBE: u8 = 3;
    pub(super) const UNSUBSCRIBE: u8 = 4;
    pub(super) const MESSAGE: u8 = 5;
    pub(super) const RETAIN: u8 = 6;
    pub(super) const UNRETAIN: u8 = 7;
    pub(super) const QUEUE: u8 = 8;
    pub(super) const SENT: u8 = 9;
    pub(super) const RECEIVED: u8 = 10;
    pub(super) const DONE: u8 = 11;
    pub(super) const INCOMING: u8 = 12;
    pub(super) const INCOMING_DONE: u8 = 13;
}

impl<'a> Record<'a> {
    /// Appends the record as it stands in the journal.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Record::Session { session, client, expiry, left, will } => {
                begin(out, tag::SESSION, session);
                put_bytes(out, client.as_bytes());
                put_number(out, expiry.into());
                put_number(out, left);
                put_bytes(out, will);
            }
            Record::SessionEnd { session } => begin(out, tag::SESSION_END, session),
            Record::Subscribe { session, filter, options, identifier, condition } => {
                begin(out, tag::SUBSCRIBE, session);
                put_bytes(out, filter.as_bytes());
                out.push(options);
                put_number(out, identifier.into());
                put_bytes(out, condition.as_bytes());
            }
            Record::Unsubscribe { session, filter } => {
                begin(out, tag::UNSUBSCRIBE, session);
                put_bytes(out, filter.as_bytes());
            }
            Record::Message { message, topic, payload, properties, flags, expires } => {
                out.push(tag::MESSAGE);
                put_number(out, message.0);
                put_bytes(out, topic.as_bytes());
                put_bytes(out, payload);
                put_bytes(out, properties);
                out.push(flags);
                put_number(out, expires);
            }
            Record::Retain { topic, message } => {
                out.push(tag::RETAIN);
                put_bytes(out, topic.as_bytes());
                put_number(out, message.0);
            }
            Record::Unretain { topic } => {
                out.push(tag::UNRETAIN);
                put_bytes(out, topic.as_bytes());
            }
            Record::Queue { session, delivery, message, options, properties, phase } => {
                begin(out, tag::QUEUE, session);
                put_number(out, delivery.0);
                put_number(out, message.0);
                out.push(options);
                put_bytes(out, properties);
                let (phase, packet) = match phase {
                    Phase::Queued => (0, 0),
                    Phase::Sent(packet) => (1, packet),
                    Phase::Received(packet) => (2, packet),
                };
                out.push(phase);
                put_number(out, packet.into());
            }
            Record::Sent { session, delivery, packet } => {
                begin(out, tag::SENT, session);
                put_number(out, delivery.0);
                put_number(out, packet.into());
            }
            Record::Received { session, delivery } => {
                begin(out, tag::RECEIVED, session);
                put_number(out, delivery.0);
            }
            Record::Done { session, delivery } => {
                begin(out, tag::DONE, session);
                put_number(out, delivery.0);
            }
            Record::Incoming { session, packet } => {
                begin(out, tag::INCOMING, session);
                put_number(out, packet.into());
            }
            Record::IncomingDone { session, packet } => {
                begin(out, tag::INCOMING_DONE, session);
                put_number(out, packet.into());
            }
        }
    }

    /// Reads one record; none if it is none.
    pub(crate) fn decode(from: &mut Reader<'a>) -> Option<Self> {
        let kind = from.byte()?;
        if let tag::MESSAGE | tag::RETAIN | tag::UNRETAIN = kind {
            return Self::of_message(kind, from);
        }
        let session = SessionId(from.number()?);
        Some(match kind {
            tag::SESSION => Record::Session {
                session,
                client: from.text()?,
                expiry: from.small()?,
                left: from.number()?,
                will: from.bytes()?,
            },
            tag::SESSION_END => Record::SessionEnd { session },
            tag::SUBSCRIBE => Record::Subscribe {
                session,
                filter: from.text()?,
                options: from.byte()?,
                identifier: from.small()?,
                condition: from.text()?,
            },
            tag::UNSUBSCRIBE => Record::Unsubscribe { session, filter: from.text()? },
            tag::QUEUE => Record::Queue {
                session,
                delivery: DeliveryId(from.number()?),
                message: MessageId(from.number()?),
                options: from.byte()?,
                properties: from.bytes()?,
                phase: match (from.byte()?, from.small()?) {
                    (0, _) => Phase::Queued,
                    (1, packet) => Phase::Sent(packet),
                    (2, packet) => Phase::Received(packet),
                    _ => return None,
                },
            },
            tag::SENT => {
                let delivery = DeliveryId(from.number()?);
                Record::Sent { session, delivery, packet: from.small()? }
            }
            tag::RECEIVED => Record::Received { session, delivery: DeliveryId(from.number()?) },
            tag::DONE => Record::Done { session, delivery: DeliveryId(from.number()?) },
            tag::INCOMING => Record::Incoming { session, packet: from.small()? },
            tag::INCOMING_DONE => Record::IncomingDone { session, packet: from.small()? },
            _ => return None,
        })
    }

    fn of_message(kind: u8, from: &mut Reader<'a>) -> Option<Self> {
        Some(match kind {
            tag::MESSAGE => Record::Message {
                message: MessageId(from.number()?),
                topic: from.text()?,
                payload: from.bytes()?,
                properties: from.bytes()?,
                flags: from.byte()?,
                expires: from.number()?,
            },
            tag::RETAIN => {
                Record::Retain { topic: from.text()?, message: MessageId(from.number()?) }
            }
            _ => Record::Unretain { topic: from.text()? },
        })
    }

    /// Whether it asks for something to be kept, and does not only let go.
    pub(crate) fn adds_state(&self) -> bool {
        matches!(
            self,
            Record::Session { .. }
                | Record::Subscribe { .. }
                | Record::Message { .. }
                | Record::Retain { .. }
                | Record::Queue { .. }
                | Record::Incoming { .. }
        )
    }
}

fn begin(out: &mut Vec<u8>, tag: u8, session: SessionId) {
    out.push(tag);
    put_number(out, session.0);
}
