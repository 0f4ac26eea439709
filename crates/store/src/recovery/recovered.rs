//! The recovered state of a store.

use std::collections::BTreeMap;

use phalanx::net::Bytes;

use crate::error::{Lost, Torn};
use crate::format::record::{DeliveryId, MessageId, Phase, Record, SessionId};
use crate::index::Index;
use crate::recovery::live::LiveRecords;

/// The state of a store when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// All sessions.
    pub sessions: BTreeMap<SessionId, Session>,
    /// All messages, queued or retained, in the order of their IDs.
    pub messages: Vec<(MessageId, Message)>,
    /// The topics with a retained message, in the journal's order.
    pub retained: Vec<(String, MessageId)>,
    /// The lowest unused session ID.
    pub next_session: SessionId,
    /// The lowest unused message ID.
    pub next_message: MessageId,
    /// An unfinished write at the journal's end. The caller should log it.
    pub torn: Option<Torn>,
    /// A loss of acknowledged data that was [accepted](crate::Options::accept_loss). The caller should log it.
    pub lost: Option<Lost>,
}

/// A session; see [`Record::Session`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Session {
    /// The client identifier.
    pub client: String,
    /// Session expiry interval in seconds; [`u32::MAX`] for never.
    pub expiry: u32,
    /// The time at which its connection ended, in seconds since 1970; 0 if it was still connected.
    pub left: u64,
    /// The broker's encoding of the will.
    pub will: Bytes,
    /// By filter.
    pub subscriptions: BTreeMap<String, Subscription>,
    /// The queue, in order.
    pub queue: BTreeMap<DeliveryId, Delivery>,
    /// The packet identifiers of messages that must not be accepted twice.
    pub incoming: Vec<u16>,
}

/// A subscription; see [`Record::Subscribe`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subscription {
    /// The broker's encoding of the options.
    pub options: u8,
    /// The subscription identifier; 0 for none.
    pub identifier: u32,
}

/// A delivery; see [`Record::Queue`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// Its message, which is missing if the receiver [has it](Phase::Received).
    pub message: MessageId,
    /// The broker's encoding of the options.
    pub options: u8,
    /// The broker's encoding of the properties.
    pub properties: Bytes,
    /// The progress.
    pub phase: Phase,
}

/// A message; see [`Record::Message`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The topic.
    pub topic: String,
    /// The payload.
    pub payload: Vec<u8>,
    /// The broker's encoding of the properties.
    pub properties: Vec<u8>,
    /// The broker's encoding of the flags.
    pub flags: u8,
    /// The broker's encoding of the expiry; 0 for never.
    pub expires: u64,
}

impl Recovered {
    /// The message with this ID.
    pub fn message(&self, message: MessageId) -> Option<&Message> {
        let at = self.messages.binary_search_by_key(&message, |(id, _)| *id).ok()?;
        Some(&self.messages[at].1)
    }

    /// The state that the [bytes](crate::Entry::bytes) of an entry set, such as one session for another store. `None` if they
    /// are invalid, or delete something.
    pub fn from_entry(entry: &[u8]) -> Option<Self> {
        let mut recovered = Self::default();
        recovered.add(LiveRecords::from_bytes(entry)?);
        recovered.messages.sort_by_key(|(message, _)| *message);
        Some(recovered)
    }

    /// Adds live records, which may come in any order.
    pub(crate) fn add(&mut self, mut records: LiveRecords<'_>) {
        self.messages.append(&mut records.messages);
        self.retained.append(&mut records.retained);
        records.others.iter().for_each(|record| self.apply(record));
    }

    /// Adds a live record of a session.
    fn apply(&mut self, record: &Record<'_>) {
        match *record {
            Record::Session { session, client, expiry, left, will } => {
                let session = self.session(session);
                session.client = client.to_owned();
                (session.expiry, session.left) = (expiry, left);
                session.will = Bytes::copy_from_slice(will);
            }
            Record::Subscribe { session, filter, options, identifier } => {
                let subscription = Subscription { options, identifier };
                self.session(session).subscriptions.insert(filter.to_owned(), subscription);
            }
            Record::Queue { session, delivery, message, options, properties, phase } => {
                let properties = Bytes::copy_from_slice(properties);
                let new = Delivery { message, options, properties, phase };
                self.session(session).queue.insert(delivery, new);
            }
            Record::Incoming { session, packet } => self.session(session).incoming.push(packet),
            _ => unreachable!("deletions are not live, and messages have no session"),
        }
    }

    pub(crate) fn finish(&mut self, index: &Index) {
        (self.next_session, self.next_message) = index.next();
        // Cleaning has moved some records to the journal's end, so they are out of order.
        self.messages.sort_by_key(|(message, _)| *message);
        self.sessions.values_mut().for_each(|session| session.incoming.sort_unstable());
    }

    fn session(&mut self, session: SessionId) -> &mut Session {
        self.sessions.entry(session).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::entry::Entry;

    #[test]
    fn an_entry_is_read_like_a_journal() {
        let (session, message, delivery) = (SessionId(3), MessageId(7), DeliveryId(5));
        let mut entry = Entry::new();
        entry.push(&Record::Session { session, client: "c", expiry: 9, left: 1, will: b"w" });
        entry.push(&Record::Incoming { session, packet: 2 });
        let (topic, payload, properties) = ("t", &b"x"[..], &b""[..]);
        let (flags, expires, options) = (0, 0, 1);
        entry.push(&Record::Message { message, topic, payload, properties, flags, expires });
        let phase = Phase::Sent(4);
        entry.push(&Record::Queue { session, delivery, message, options, properties, phase });
        let recovered = Recovered::from_entry(entry.bytes()).unwrap();
        let own = &recovered.sessions[&session];
        assert_eq!((&*own.client, &own.incoming[..]), ("c", &[2][..]));
        assert_eq!((own.queue[&delivery].phase, own.queue[&delivery].message), (phase, message));
        assert_eq!(recovered.message(message).map(|stored| &*stored.topic), Some("t"));
        assert_eq!(Recovered::from_entry(&entry.bytes()[..entry.len() - 1]), None);
        entry.push(&Record::SessionEnd { session });
        assert_eq!(Recovered::from_entry(entry.bytes()), None);
    }
}
