//! The index of live records and their positions in the journal. It is the store's only state in memory.
//!
//! A record is live if it was the last to set its object, and the object was not deleted. Recovery reads the live
//! records, and cleaning copies them before it deletes a segment. The index does not store their contents.
//!
//! Cleaning moves records to the journal's end, so a replay may see them in a different order than they were first
//! written: a subscription before its session, a delivery before its message. Therefore a replay accepts records whose
//! session or message is missing, and deletes them only at its end. In operation the records are in the broker's order,
//! and records about missing objects are ignored.

mod messages;
mod sessions;

use crate::format::record::{MessageId, Phase, Record, SessionId};
use crate::index::messages::MessageIndex;
use crate::index::sessions::SessionIndex;

/// Position and length of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) at: u64,
    pub(crate) length: u32,
}

/// The index. Its halves share no state, so two threads can replay the journal into them.
#[derive(Debug, Default)]
pub(crate) struct Index {
    sessions: SessionIndex,
    messages: MessageIndex,
}

/// The positions of all live records, for a second pass over the journal, which thus needs no lookups.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LivePlaces {
    /// In order.
    places: Vec<u64>,
    /// The positions and phases of deliveries that were sent, in order of position.
    sent: Vec<(u64, Phase)>,
}

impl LivePlaces {
    /// The live records from the position `begin` on.
    pub(crate) fn from(&self, begin: u64) -> impl Iterator<Item = u64> {
        let first = self.places.partition_point(|at| *at < begin);
        self.places[first..].iter().copied()
    }

    /// A live record in its current form: a delivery with its current phase.
    pub(crate) fn current<'a>(&self, mut record: Record<'a>, at: u64) -> Record<'a> {
        if let Record::Queue { phase, .. } = &mut record {
            let sent = self.sent.binary_search_by_key(&at, |(at, _)| *at);
            *phase = sent.map_or(Phase::Queued, |place| self.sent[place].1);
        }
        record
    }
}

/// One half of the index during a replay.
pub(crate) trait ReplayHalf: Send {
    /// Applies a record at `place`. Ignores records of the other half.
    fn replay(&mut self, record: &Record<'_>, place: Place);
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
        let mut index = Self::default();
        index.raise(1, 1);
        index
    }

    /// Raises the lowest unused IDs.
    pub(crate) fn raise(&mut self, next_session: u64, next_message: u64) {
        self.sessions.next = self.sessions.next.max(next_session);
        self.messages.next = self.messages.next.max(next_message);
    }

    pub(crate) fn next(&self) -> (SessionId, MessageId) {
        (SessionId(self.sessions.next), MessageId(self.messages.next))
    }

    /// Size of the live records, in bytes.
    pub(crate) fn live(&self) -> u64 {
        self.sessions.live + self.messages.live
    }

    /// Counts the live objects. Traverses the whole index.
    pub(crate) fn counts(&self) -> Counts {
        let (sessions, subscriptions, queued) = self.sessions.counts();
        let (messages, retained) = self.messages.counts();
        Counts { sessions, subscriptions, messages, retained, queued }
    }

    /// Applies a record at `place`.
    pub(crate) fn apply(&mut self, record: &Record<'_>, place: Place) {
        let Self { sessions, messages } = self;
        if let Record::Queue { session, message, phase, .. } = *record {
            let has_reference = !matches!(phase, Phase::Received(_));
            if !sessions.has(session) || has_reference && !messages.add_reference(message.0) {
                return;
            }
        }
        sessions.apply(record, place, false, &mut |message| messages.release(message));
        messages.apply(record, place, false);
    }

    /// Ends a batch: deletes messages without references.
    pub(crate) fn end_batch(&mut self) {
        self.messages.end_batch();
    }

    /// The two halves, for a replay.
    pub(crate) fn halves(&mut self) -> (&mut impl ReplayHalf, &mut impl ReplayHalf) {
        (&mut self.sessions, &mut self.messages)
    }

    /// Ends a replay: deletes incomplete objects. Later records must be applied in order.
    pub(crate) fn finish_replay(&mut self) {
        let Self { sessions, messages } = self;
        sessions.finish_replay(|message| messages.add_reference(message));
        messages.finish_replay();
    }

    /// The positions of all live records.
    pub(crate) fn places(&self) -> LivePlaces {
        let Self { sessions, messages } = self;
        let mut places: Vec<_> =
            messages.places().chain(sessions.places()).map(|it| it.at).collect();
        let mut sent: Vec<_> = sessions.sent().map(|(place, phase)| (place.at, phase)).collect();
        places.sort_unstable();
        sent.sort_unstable_by_key(|(at, _)| *at);
        LivePlaces { places, sent }
    }

    /// Whether the record at `at` is live.
    pub(crate) fn is_live(&self, record: &Record<'_>, at: u64) -> bool {
        let place = match record {
            Record::Message { .. } | Record::Retain { .. } => self.messages.place(record),
            _ => self.sessions.place(record),
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
            *phase = self.sessions.phase(*session, delivery.0).expect("it is live");
        }
        Some(record)
    }
}

impl ReplayHalf for SessionIndex {
    fn replay(&mut self, record: &Record<'_>, place: Place) {
        // References are counted at the end.
        self.apply(record, place, true, &mut |_| ());
    }
}

impl ReplayHalf for MessageIndex {
    fn replay(&mut self, record: &Record<'_>, place: Place) {
        self.apply(record, place, true);
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
        let (sessions, messages) = index.halves();
        for (at, record) in records.iter().enumerate() {
            let place = Place { at: at as u64, length: 10 };
            sessions.replay(record, place);
            messages.replay(record, place);
        }
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
        let places = index.places();
        assert_eq!(places.from(0).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(places.from(1).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(places.current(queue(Phase::Queued), 0), queue(Phase::Sent(9)));
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
