//! Records: each describes one change of the state.
//!
//! A record sets an object completely; a later record of the same kind replaces it, and another kind deletes it. Data
//! that the store need not interpret (the options of a subscription, the properties of a message) is stored as bytes,
//! so the store does not depend on the protocol.

use crate::format::wire::{Reader, put_bytes, put_number};

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);
    )*};
}

numbers! {
    /// Identifies a session. IDs are never reused; [`Recovered`](crate::Recovered) contains the lowest unused one.
    SessionId,
    /// Identifies a message. IDs are never reused; [`Recovered`](crate::Recovered) contains the lowest unused one.
    MessageId,
    /// Identifies a queued delivery within its session. A session's queue is in the order of these IDs.
    DeliveryId,
}

/// The progress of a delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The delivery is queued.
    #[default]
    Queued,
    /// The delivery was sent with this packet identifier.
    Sent(u16),
    /// The receiver has the message, so it need no longer be stored for this delivery. The packet identifier is still
    /// in use.
    Received(u16),
}

/// One change of the state, which borrows its data.
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
    /// Sets a session. Its other records must be in the same entry or a later one, because records of missing sessions
    /// are ignored. If this first record is refused, the session's ID must not be used.
    Session {
        /// The session.
        session: SessionId,
        /// The client identifier.
        client: &'a str,
        /// Session expiry interval in seconds; [`u32::MAX`] for never.
        expiry: u32,
        /// The time at which its connection ended, in seconds since 1970; 0 while connected.
        left: u64,
        /// The broker's encoding of the will; may be empty.
        will: &'a [u8],
    },
    /// Deletes a session with its subscriptions and its queue.
    SessionEnd {
        /// The session.
        session: SessionId,
    },
    /// Sets a subscription.
    Subscribe {
        /// The session.
        session: SessionId,
        /// The filter as given by the client; identifies the subscription in the session.
        filter: &'a str,
        /// The broker's encoding of the options.
        options: u8,
        /// The subscription identifier; 0 for none.
        identifier: u32,
    },
    /// Deletes a subscription.
    Unsubscribe {
        /// The session.
        session: SessionId,
        /// The filter as given by the client.
        filter: &'a str,
    },
    /// Sets a message. It is stored as long as it is queued or retained. A record of the same entry must queue or
    /// retain it; otherwise it is dropped.
    Message {
        /// The message.
        message: MessageId,
        /// The topic.
        topic: &'a str,
        /// The payload.
        payload: &'a [u8],
        /// The broker's encoding of the properties.
        properties: &'a [u8],
        /// The broker's encoding of the flags.
        flags: u8,
        /// The broker's encoding of the expiry; 0 for never.
        expires: u64,
    },
    /// Sets the retained message of a topic.
    Retain {
        /// The topic.
        topic: &'a str,
        /// A message of this entry, or one already queued or retained.
        message: MessageId,
    },
    /// Deletes the retained message of a topic.
    Unretain {
        /// The topic.
        topic: &'a str,
    },
    /// Queues a message for a session.
    Queue {
        /// The session.
        session: SessionId,
        /// The position in the queue.
        delivery: DeliveryId,
        /// A message of this entry, or one already queued or retained; otherwise the record is ignored. If in
        /// doubt, store the message again with a new ID.
        message: MessageId,
        /// The broker's encoding of options, such as the QoS.
        options: u8,
        /// The broker's encoding of properties, such as subscription identifiers.
        properties: &'a [u8],
        /// The progress.
        phase: Phase,
    },
    /// A delivery was sent, or is about to be.
    Sent {
        /// The session.
        session: SessionId,
        /// The delivery.
        delivery: DeliveryId,
        /// The packet identifier.
        packet: u16,
    },
    /// The receiver has the message; see [`Phase::Received`].
    Received {
        /// The session.
        session: SessionId,
        /// The delivery.
        delivery: DeliveryId,
    },
    /// A delivery is complete or abandoned.
    Done {
        /// The session.
        session: SessionId,
        /// The delivery.
        delivery: DeliveryId,
    },
    /// A message that must not be accepted twice was received from the session's client.
    Incoming {
        /// The session.
        session: SessionId,
        /// The packet identifier.
        packet: u16,
    },
    /// The client released the packet identifier.
    IncomingDone {
        /// The session.
        session: SessionId,
        /// The packet identifier.
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
    /// Appends the record's encoding.
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
            Record::Subscribe { session, filter, options, identifier } => {
                begin(out, tag::SUBSCRIBE, session);
                put_bytes(out, filter.as_bytes());
                out.push(options);
                put_number(out, identifier.into());
                put_bytes(out, &[]);
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

    /// Decodes one record; `None` if it is invalid.
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
            tag::SUBSCRIBE => {
                let (filter, options, identifier) = (from.text()?, from.byte()?, from.small()?);
                // Reserved.
                from.bytes()?.is_empty().then_some(())?;
                Record::Subscribe { session, filter, options, identifier }
            }
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

    /// Whether it adds to the state, rather than only deleting.
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
