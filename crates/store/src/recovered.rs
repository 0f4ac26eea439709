//! What a store had when it was opened, as a broker takes it up.

use std::collections::BTreeMap;

use phalanx::net::Bytes;

use crate::error::Torn;
use crate::index::Index;
use crate::record::{DeliveryId, MessageId, Phase, Record, SessionId};

/// What a store had when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// All sessions.
    pub sessions: BTreeMap<SessionId, Session>,
    /// All messages that are queued or retained.
    pub messages: BTreeMap<MessageId, Message>,
    /// For each topic the message that it retains.
    pub retained: BTreeMap<String, MessageId>,
    /// Sessions have free numbers from here on.
    pub next_session: SessionId,
    /// Messages have free numbers from here on.
    pub next_message: MessageId,
    /// What a crash has left unfinished at the journal's end; to be told to somebody.
    pub torn: Option<Torn>,
}

/// A session as it was; see [`Record::Session`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Session {
    /// The name that its client has given itself.
    pub client: String,
    /// For how many seconds it is kept without a connection; [`u32::MAX`] for ever.
    pub expiry: u32,
    /// When its connection ended, in seconds since 1970; 0 if it had one in the end.
    pub left: u64,
    /// What is published when it is lost.
    pub will: Bytes,
    /// By their filters.
    pub subscriptions: BTreeMap<String, Subscription>,
    /// What is queued, in order.
    pub queue: BTreeMap<DeliveryId, Delivery>,
    /// The packet identifiers of messages that must not be taken twice.
    pub incoming: Vec<u16>,
}

/// A subscription as it was; see [`Record::Subscribe`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subscription {
    /// As the broker has written them.
    pub options: u8,
    /// The client's number for it; 0 for none.
    pub identifier: u32,
    /// The condition on the message's content; empty for none.
    pub condition: String,
}

/// A delivery as it was; see [`Record::Queue`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// Of what. Among the messages, unless the receiver [has it](Phase::Received).
    pub message: MessageId,
    /// As the broker has written them.
    pub options: u8,
    /// As the broker has written them.
    pub properties: Bytes,
    /// How far it had come.
    pub phase: Phase,
}

/// A message as it was; see [`Record::Message`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// What it is about.
    pub topic: String,
    /// What it says.
    pub payload: Bytes,
    /// As the broker has written them.
    pub properties: Bytes,
    /// As the broker has written them.
    pub flags: u8,
    /// When it expires, as the broker has written it; 0 for never.
    pub expires: u64,
}

impl Recovered {
    /// Takes in a record that is alive. They come in any order.
    pub(crate) fn apply(&mut self, record: &Record<'_>) {
        match *record {
            Record::Session { session, client, expiry, left, will } => {
                let session = self.session(session);
                session.client = client.to_owned();
                (session.expiry, session.left) = (expiry, left);
                session.will = Bytes::copy_from_slice(will);
            }
            Record::Subscribe { session, filter, options, identifier, condition } => {
                let condition = condition.to_owned();
                let subscription = Subscription { options, identifier, condition };
                self.session(session).subscriptions.insert(filter.to_owned(), subscription);
            }
            Record::Message { message, topic, payload, properties, flags, expires } => {
                let (topic, payload) = (topic.to_owned(), Bytes::copy_from_slice(payload));
                let properties = Bytes::copy_from_slice(properties);
                let new = Message { topic, payload, properties, flags, expires };
                self.messages.insert(message, new);
            }
            Record::Retain { topic, message } => {
                self.retained.insert(topic.to_owned(), message);
            }
            Record::Queue { session, delivery, message, options, properties, phase } => {
                let properties = Bytes::copy_from_slice(properties);
                let new = Delivery { message, options, properties, phase };
                self.session(session).queue.insert(delivery, new);
            }
            Record::Incoming { session, packet } => self.session(session).incoming.push(packet),
            _ => unreachable!("what takes away is not alive"),
        }
    }

    pub(crate) fn finish(&mut self, index: &Index) {
        (self.next_session, self.next_message) = index.next();
        self.sessions.values_mut().for_each(|session| session.incoming.sort_unstable());
    }

    fn session(&mut self, session: SessionId) -> &mut Session {
        self.sessions.entry(session).or_default()
    }
}
