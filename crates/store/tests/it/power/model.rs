//! A simple model of the store's content, or a part of it: plain maps, updated entry by entry.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_store::{Phase, Record, Recovered};

/// The stored part of a message: its payload.
type Payload = Vec<u8>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) sessions: BTreeMap<u64, Session>,
    pub(crate) retained: BTreeMap<String, Payload>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) properties: (String, u32, u64, Payload),
    pub(crate) subscriptions: BTreeMap<String, (u8, u32)>,
    /// `None` once the receiver has the message.
    pub(crate) queue: BTreeMap<u64, (Option<Payload>, u8, Payload, Phase)>,
    pub(crate) incoming: BTreeSet<u16>,
}

impl Model {
    /// Applies an entry, with its messages resolved.
    pub(crate) fn apply<'a>(&mut self, records: impl Iterator<Item = Record<'a>>) {
        let mut messages = BTreeMap::new();
        for record in records {
            self.one(&record, &mut messages);
        }
    }

    fn one(&mut self, record: &Record<'_>, messages: &mut BTreeMap<u64, Payload>) {
        match *record {
            Record::Session { session, client, expiry, left, will } => {
                let session = self.sessions.entry(session.0).or_default();
                session.properties = (client.to_owned(), expiry, left, will.to_vec());
            }
            Record::SessionEnd { session } => drop(self.sessions.remove(&session.0)),
            Record::Message { message, payload, .. } => {
                messages.insert(message.0, payload.to_vec());
            }
            Record::Retain { topic, message } => {
                self.retained.insert(topic.to_owned(), messages[&message.0].clone());
            }
            Record::Unretain { topic } => drop(self.retained.remove(topic)),
            Record::Subscribe { session, .. }
            | Record::Unsubscribe { session, .. }
            | Record::Queue { session, .. }
            | Record::Sent { session, .. }
            | Record::Received { session, .. }
            | Record::Done { session, .. }
            | Record::Incoming { session, .. }
            | Record::IncomingDone { session, .. } => {
                if let Some(session) = self.sessions.get_mut(&session.0) {
                    session.one(record, messages);
                }
            }
            _ => unreachable!("an unknown record"),
        }
    }

    /// The recovered content, limited to the sessions and topics for which `of` is true: it gets a session's
    /// client or a topic.
    pub(crate) fn recovered(recovered: &Recovered, of: impl Fn(&str) -> bool) -> Self {
        let payload = |message: &phalanx_store::MessageId| {
            recovered.message(*message).unwrap().payload.clone()
        };
        let session = |session: &phalanx_store::Session| Session {
            properties: (
                session.client.clone(),
                session.expiry,
                session.left,
                session.will.to_vec(),
            ),
            subscriptions: session
                .subscriptions
                .iter()
                .map(|(filter, it)| (filter.clone(), (it.options, it.identifier)))
                .collect(),
            queue: session
                .queue
                .iter()
                .map(|(delivery, it)| {
                    let has_it = matches!(it.phase, Phase::Received(_));
                    let message = (!has_it).then(|| payload(&it.message));
                    (delivery.0, (message, it.options, it.properties.to_vec(), it.phase))
                })
                .collect(),
            incoming: session.incoming.iter().copied().collect(),
        };
        let sessions = recovered.sessions.iter().filter(|(_, session)| of(&session.client));
        let retained = recovered.retained.iter().filter(|(topic, _)| of(topic));
        Self {
            sessions: sessions.map(|(id, it)| (id.0, session(it))).collect(),
            retained: retained.map(|(topic, it)| (topic.clone(), payload(it))).collect(),
        }
    }
}

impl Session {
    fn one(&mut self, record: &Record<'_>, messages: &BTreeMap<u64, Payload>) {
        match *record {
            Record::Subscribe { filter, options, identifier, .. } => {
                let what = (options, identifier);
                self.subscriptions.insert(filter.to_owned(), what);
            }
            Record::Unsubscribe { filter, .. } => drop(self.subscriptions.remove(filter)),
            Record::Queue { delivery, message, options, properties, phase, .. } => {
                let message = Some(messages[&message.0].clone());
                self.queue.insert(delivery.0, (message, options, properties.to_vec(), phase));
            }
            Record::Sent { delivery, packet, .. } => {
                if let Some((Some(_), .., phase)) = self.queue.get_mut(&delivery.0) {
                    *phase = Phase::Sent(packet);
                }
            }
            Record::Received { delivery, .. } => {
                if let Some((message, .., phase)) = self.queue.get_mut(&delivery.0)
                    && let Phase::Sent(packet) = *phase
                {
                    (*message, *phase) = (None, Phase::Received(packet));
                }
            }
            Record::Done { delivery, .. } => drop(self.queue.remove(&delivery.0)),
            Record::Incoming { packet, .. } => drop(self.incoming.insert(packet)),
            Record::IncomingDone { packet, .. } => drop(self.incoming.remove(&packet)),
            _ => unreachable!("a record without a session"),
        }
    }
}
