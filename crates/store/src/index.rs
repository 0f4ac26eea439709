//! The index of live records and their positions in the journal: the store's only state in memory.
//!
//! A record is live if it was the last to set its object, and the object was not deleted. Recovery reads the
//! live records, and cleaning copies them before it deletes a segment. The contents are not stored here.
//!
//! Cleaning moves records to the journal's end, so a replay may see them in another order than they were
//! written: a subscription before its session, a delivery before its message. Therefore a replay neither
//! rejects nor deletes a record because another is missing, until its end. In operation the records are in
//! the broker's order, and records about missing objects are ignored.

use std::collections::{BTreeMap, HashMap};

use crate::format::record::{MessageId, Phase, Record, SessionId};

/// Position and length of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) at: u64,
    pub(crate) length: u32,
}

/// The index.
#[derive(Debug, Default)]
pub(crate) struct Index {
    sessions: HashMap<u64, Session>,
    messages: HashMap<u64, Message>,
    retained: HashMap<Box<str>, Retained>,
    /// Messages of the current batch without references; deleted at its end.
    unreferenced: Vec<u64>,
    /// Size of the live records, in bytes.
    live: u64,
    next_session: u64,
    next_message: u64,
    replaying: bool,
}

#[derive(Debug, Default)]
struct Session {
    /// `None` if a replay has only seen parts of the session so far.
    place: Option<Place>,
    subscriptions: BTreeMap<Box<str>, Place>,
    queue: BTreeMap<u64, Delivery>,
    incoming: BTreeMap<u16, Place>,
}

#[derive(Debug)]
struct Delivery {
    place: Place,
    message: u64,
    phase: Phase,
}

#[derive(Debug, Default)]
struct Message {
    place: Option<Place>,
    /// Number of deliveries and topics that reference the message.
    references: u32,
}

#[derive(Debug)]
struct Retained {
    place: Place,
    message: u64,
}

/// Numbers of live objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Sessions.
    pub sessions: u64,
    /// Subscriptions of all sessions.
    pub subscriptions: u64,
    /// Messages, queued or retained.
    pub messages: u64,
    /// Topics with a retained message.
    pub retained: u64,
    /// Deliveries in all queues.
    pub queued: u64,
}

impl Index {
    /// An empty index, for a replay.
    pub(crate) fn replaying() -> Self {
        Self { replaying: true, next_session: 1, next_message: 1, ..Self::default() }
    }

    /// Raises the lowest unused IDs.
    pub(crate) fn raise(&mut self, next_session: u64, next_message: u64) {
        self.next_session = self.next_session.max(next_session);
        self.next_message = self.next_message.max(next_message);
    }

    pub(crate) fn next(&self) -> (SessionId, MessageId) {
        (SessionId(self.next_session), MessageId(self.next_message))
    }

    /// Size of the live records, in bytes.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// Counts the live objects. Traverses the whole index.
    pub(crate) fn counts(&self) -> Counts {
        let each = |of: fn(&Session) -> usize| self.sessions.values().map(of).sum::<usize>() as u64;
        Counts {
            sessions: self.sessions.len() as u64,
            subscriptions: each(|session| session.subscriptions.len()),
            messages: self.messages.len() as u64,
            retained: self.retained.len() as u64,
            queued: each(|session| session.queue.len()),
        }
    }

    /// Applies a record at `place`.
    pub(crate) fn apply(&mut self, record: &Record<'_>, place: Place) {
        match *record {
            Record::Session { session, .. } => {
                self.next_session = self.next_session.max(session.0.saturating_add(1));
                let old = self.sessions.entry(session.0).or_default().place.replace(place);
                self.replaced(old, place);
            }
            Record::SessionEnd { session } => self.end(session),
            Record::Subscribe { session, filter, .. } => {
                let Some(session) = self.session(session) else { return };
                let old = session.subscriptions.insert(filter.into(), place);
                self.replaced(old, place);
            }
            Record::Unsubscribe { session, filter } => {
                let Some(session) = self.sessions.get_mut(&session.0) else { return };
                let old = session.subscriptions.remove(filter);
                self.gone(old);
            }
            Record::Message { message, .. } => {
                self.next_message = self.next_message.max(message.0.saturating_add(1));
                let entry = self.messages.entry(message.0).or_default();
                let old = entry.place.replace(place);
                if entry.references == 0 && !self.replaying {
                    self.unreferenced.push(message.0);
                }
                self.replaced(old, place);
            }
            Record::Retain { topic, message } => {
                if self.keep_message(message) {
                    let new = Retained { place, message: message.0 };
                    let old = self.retained.insert(topic.into(), new);
                    self.replaced(old.as_ref().map(|old| old.place), place);
                    old.into_iter().for_each(|old| self.release(old.message));
                }
            }
            Record::Unretain { topic } => {
                if let Some(old) = self.retained.remove(topic) {
                    self.gone(Some(old.place));
                    self.release(old.message);
                }
            }
            Record::Queue { session, delivery, message, phase, .. } => {
                let keeps = !matches!(phase, Phase::Received(_));
                if self.session(session).is_none() || keeps && !self.keep_message(message) {
                    return;
                }
                let session = self.session(session).expect("looked up above");
                let new = Delivery { place, message: message.0, phase };
                let old = session.queue.insert(delivery.0, new);
                self.replaced(old.as_ref().map(|old| old.place), place);
                old.into_iter().for_each(|old| self.release_delivery(&old));
            }
            Record::Sent { session, delivery, packet } => {
                if let Some(delivery) = self.delivery(session, delivery.0)
                    && !matches!(delivery.phase, Phase::Received(_))
                {
                    delivery.phase = Phase::Sent(packet);
                }
            }
            Record::Received { session, delivery } => {
                if let Some(delivery) = self.delivery(session, delivery.0)
                    && let Phase::Sent(packet) = delivery.phase
                {
                    delivery.phase = Phase::Received(packet);
                    let message = delivery.message;
                    self.release(message);
                }
            }
            Record::Done { session, delivery } => {
                let Some(session) = self.sessions.get_mut(&session.0) else { return };
                if let Some(old) = session.queue.remove(&delivery.0) {
                    self.gone(Some(old.place));
                    self.release_delivery(&old);
                }
            }
            Record::Incoming { session, packet } => {
                let Some(session) = self.session(session) else { return };
                let old = session.incoming.insert(packet, place);
                self.replaced(old, place);
            }
            Record::IncomingDone { session, packet } => {
                let Some(session) = self.sessions.get_mut(&session.0) else { return };
                let old = session.incoming.remove(&packet);
                self.gone(old);
            }
        }
    }

    /// Ends a batch: deletes messages without references.
    pub(crate) fn end_batch(&mut self) {
        for message in std::mem::take(&mut self.unreferenced) {
            if self.messages.get(&message).is_some_and(|message| message.references == 0) {
                let old = self.messages.remove(&message);
                self.gone(old.and_then(|old| old.place));
            }
        }
    }

    /// Ends a replay: deletes incomplete objects. From now on records are applied in order.
    pub(crate) fn finish_replay(&mut self) {
        let parts = self.sessions.iter().filter(|(_, session)| session.place.is_none());
        let parts: Vec<u64> = parts.map(|(session, _)| *session).collect();
        parts.into_iter().for_each(|session| self.end(SessionId(session)));
        let Self { sessions, messages, retained, live, .. } = self;
        let is_there = |message: &u64| messages.get(message).is_some_and(|it| it.place.is_some());
        for session in sessions.values_mut() {
            session.queue.retain(|_, delivery| {
                let keep =
                    matches!(delivery.phase, Phase::Received(_)) || is_there(&delivery.message);
                *live -= if keep { 0 } else { u64::from(delivery.place.length) };
                keep
            });
        }
        retained.retain(|_, retained| {
            let keep = is_there(&retained.message);
            *live -= if keep { 0 } else { u64::from(retained.place.length) };
            keep
        });
        messages.retain(|_, message| {
            let keep = message.references > 0 && message.place.is_some();
            if let (false, Some(place)) = (keep, message.place) {
                *live -= u64::from(place.length);
            }
            keep
        });
        messages.shrink_to_fit();
        self.replaying = false;
    }

    /// Whether the record at `at` is live.
    pub(crate) fn is_live(&self, record: &Record<'_>, at: u64) -> bool {
        let session = |session: SessionId| self.sessions.get(&session.0);
        let place = match *record {
            Record::Session { session: id, .. } => session(id).and_then(|it| it.place),
            Record::Subscribe { session: id, filter, .. } => {
                session(id).and_then(|it| it.subscriptions.get(filter)).copied()
            }
            Record::Message { message, .. } => {
                self.messages.get(&message.0).and_then(|it| it.place)
            }
            Record::Retain { topic, .. } => self.retained.get(topic).map(|it| it.place),
            Record::Queue { session: id, delivery, .. } => {
                session(id).and_then(|it| it.queue.get(&delivery.0)).map(|it| it.place)
            }
            Record::Incoming { session: id, packet } => {
                session(id).and_then(|it| it.incoming.get(&packet)).copied()
            }
            _ => None,
        };
        place.is_some_and(|place| place.at == at)
    }

    /// The record at `at` in its current form, if it is live: a delivery with its current phase.
    pub(crate) fn current<'a>(&self, record: &Record<'a>, at: u64) -> Option<Record<'a>> {
        if !self.is_live(record, at) {
            return None;
        }
        let mut record = *record;
        if let Record::Queue { session, delivery, phase, .. } = &mut record {
            *phase = self.sessions[&session.0].queue[&delivery.0].phase;
        }
        Some(record)
    }

    fn session(&mut self, session: SessionId) -> Option<&mut Session> {
        match self.replaying {
            true => Some(self.sessions.entry(session.0).or_default()),
            false => self.sessions.get_mut(&session.0),
        }
    }

    fn delivery(&mut self, session: SessionId, delivery: u64) -> Option<&mut Delivery> {
        self.sessions.get_mut(&session.0)?.queue.get_mut(&delivery)
    }

    fn end(&mut self, session: SessionId) {
        let Some(old) = self.sessions.remove(&session.0) else { return };
        self.gone(old.place);
        old.subscriptions.into_values().for_each(|place| self.gone(Some(place)));
        old.incoming.into_values().for_each(|place| self.gone(Some(place)));
        for delivery in old.queue.into_values() {
            self.gone(Some(delivery.place));
            self.release_delivery(&delivery);
        }
    }

    /// Adds a reference to a message. Returns false if it does not exist.
    fn keep_message(&mut self, message: MessageId) -> bool {
        let message = match self.replaying {
            true => Some(self.messages.entry(message.0).or_default()),
            false => self.messages.get_mut(&message.0),
        };
        message.map(|message| message.references += 1).is_some()
    }

    fn release_delivery(&mut self, delivery: &Delivery) {
        if !matches!(delivery.phase, Phase::Received(_)) {
            self.release(delivery.message);
        }
    }

    fn release(&mut self, message: u64) {
        let Some(entry) = self.messages.get_mut(&message) else { return };
        entry.references -= 1;
        if entry.references == 0 && !self.replaying {
            let old = self.messages.remove(&message).and_then(|old| old.place);
            self.gone(old);
        }
    }

    fn replaced(&mut self, old: Option<Place>, new: Place) {
        self.gone(old);
        self.live += u64::from(new.length);
    }

    fn gone(&mut self, old: Option<Place>) {
        self.live -= old.map_or(0, |old| u64::from(old.length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::DeliveryId;

    const SESSION: SessionId = SessionId(1);
    const MESSAGE: MessageId = MessageId(7);
    const DELIVERY: DeliveryId = DeliveryId(3);

    fn session() -> Record<'static> {
        Record::Session { session: SESSION, client: "one", expiry: 0, left: 0, will: &[] }
    }

    fn message() -> Record<'static> {
        let (topic, payload, properties) = ("t", &b"m"[..], &[][..]);
        Record::Message { message: MESSAGE, topic, payload, properties, flags: 0, expires: 0 }
    }

    fn queue(phase: Phase) -> Record<'static> {
        let (session, delivery, message) = (SESSION, DELIVERY, MESSAGE);
        Record::Queue { session, delivery, message, options: 0, properties: &[], phase }
    }

    const RETAIN: Record<'_> = Record::Retain { topic: "t", message: MESSAGE };
    const DONE: Record<'_> = Record::Done { session: SESSION, delivery: DELIVERY };

    /// Each record is ten bytes long, and its position is its index in the list.
    fn apply(index: &mut Index, records: &[Record<'_>]) {
        for (at, record) in records.iter().enumerate() {
            index.apply(record, Place { at: at as u64, length: 10 });
        }
    }

    fn replayed(records: &[Record<'_>]) -> Index {
        let mut index = Index::replaying();
        apply(&mut index, records);
        index.finish_replay();
        index
    }

    /// Cleaning separated related records: a completed delivery is between a message and the topic that
    /// retains it.
    #[test]
    fn nothing_is_dropped_before_the_end_of_a_replay() {
        let index = replayed(&[message(), session(), queue(Phase::Queued), DONE, RETAIN]);
        assert!(index.is_live(&message(), 0) && index.is_live(&RETAIN, 4));
        assert_eq!((index.live(), index.counts().messages), (30, 1));
        let index = replayed(&[queue(Phase::Sent(9)), message(), session()]);
        assert!(index.is_live(&queue(Phase::Queued), 0) && index.live() == 30);
        assert_eq!(index.current(&queue(Phase::Queued), 0), Some(queue(Phase::Sent(9))));
    }

    #[test]
    fn records_without_their_session_are_dropped() {
        // An ended session, a message without references, and deliveries without a message.
        let ended =
            replayed(&[session(), Record::SessionEnd { session: SESSION }, queue(Phase::Queued)]);
        assert_eq!((ended.live(), ended.counts()), (0, Counts::default()));
        let index = replayed(&[session(), message()]);
        assert_eq!((index.live(), index.counts().messages), (10, 0));
        let index = replayed(&[session(), queue(Phase::Queued), RETAIN]);
        assert_eq!((index.live(), index.counts().queued, index.counts().retained), (10, 0, 0));
        let index = replayed(&[session(), queue(Phase::Received(2))]);
        assert_eq!((index.live(), index.counts().queued), (20, 1), "its receiver has the message");
    }

    #[test]
    fn messages_live_while_referenced() {
        let mut index = replayed(&[session()]);
        apply(&mut index, &[session(), message(), RETAIN, queue(Phase::Sent(5))]);
        index.end_batch();
        let received = Record::Received { session: SESSION, delivery: DELIVERY };
        apply(&mut index, &[Record::Unretain { topic: "t" }]);
        assert!(index.is_live(&message(), 1));
        apply(&mut index, &[received]);
        assert!(!index.is_live(&message(), 1) && index.live() == 20);
        assert_eq!(index.current(&queue(Phase::Queued), 3), Some(queue(Phase::Received(5))));
        apply(&mut index, &[received, DONE, DONE]);
        assert_eq!(index.live(), 10);
        apply(&mut index, &[message()]);
        index.end_batch();
        assert_eq!(index.counts().messages, 0, "without a session");
        apply(&mut index, &[queue(Phase::Queued), RETAIN]);
        assert_eq!(index.live(), 10, "without a message");
    }
}
