//! The live sessions with their subscriptions, queues and packet identifiers.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;

use crate::format::record::{Phase, Record, SessionId};
use crate::index::Place;

/// The live sessions.
#[derive(Debug, Default)]
pub(super) struct SessionIndex {
    sessions: HashMap<u64, Session, RandomState>,
    /// Size of the live records, in bytes.
    pub(super) live: u64,
    pub(super) next: u64,
}

#[derive(Debug, Default)]
struct Session {
    /// `None` if a replay has seen only other records of the session so far.
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

impl Delivery {
    /// Whether the delivery references its message.
    fn refers(&self) -> bool {
        !matches!(self.phase, Phase::Received(_))
    }
}

impl SessionIndex {
    /// The numbers of sessions, subscriptions and queued deliveries.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        let each = |of: fn(&Session) -> usize| self.sessions.values().map(of).sum::<usize>() as u64;
        let subscriptions = each(|session| session.subscriptions.len());
        (self.sessions.len() as u64, subscriptions, each(|session| session.queue.len()))
    }

    pub(super) fn has(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session.0)
    }

    /// Applies a record of a session at `place`, and ignores others. Passes each message that loses a reference to
    /// `release`. A replay creates missing sessions, because their own record may come later.
    pub(super) fn apply(
        &mut self,
        record: &Record<'_>,
        place: Place,
        replaying: bool,
        release: &mut impl FnMut(u64),
    ) {
        match *record {
            Record::Session { session, .. } => {
                self.next = self.next.max(session.0.saturating_add(1));
                let old = self.sessions.entry(session.0).or_default().place.replace(place);
                self.replaced(old, place);
            }
            Record::SessionEnd { session } => self.end(session.0, release),
            Record::Subscribe { session, filter, .. } => {
                let Some(session) = self.session(session, replaying) else { return };
                let old = session.subscriptions.insert(filter.into(), place);
                self.replaced(old, place);
            }
            Record::Unsubscribe { session, filter } => {
                let Some(session) = self.session(session, false) else { return };
                let old = session.subscriptions.remove(filter);
                self.record_dead(old);
            }
            Record::Queue { session, delivery, message, phase, .. } => {
                let Some(session) = self.session(session, replaying) else { return };
                let new = Delivery { place, message: message.0, phase };
                let old = session.queue.insert(delivery.0, new);
                self.replaced(old.as_ref().map(|old| old.place), place);
                old.into_iter().filter(Delivery::refers).for_each(|old| release(old.message));
            }
            Record::Sent { session, delivery, packet } => {
                if let Some(delivery) = self.delivery(session, delivery.0).filter(|it| it.refers())
                {
                    delivery.phase = Phase::Sent(packet);
                }
            }
            Record::Received { session, delivery } => {
                if let Some(delivery) = self.delivery(session, delivery.0)
                    && let Phase::Sent(packet) = delivery.phase
                {
                    delivery.phase = Phase::Received(packet);
                    release(delivery.message);
                }
            }
            Record::Done { session, delivery } => {
                let Some(session) = self.session(session, false) else { return };
                if let Some(old) = session.queue.remove(&delivery.0) {
                    self.record_dead(Some(old.place));
                    if old.refers() {
                        release(old.message);
                    }
                }
            }
            Record::Incoming { session, packet } => {
                let Some(session) = self.session(session, replaying) else { return };
                let old = session.incoming.insert(packet, place);
                self.replaced(old, place);
            }
            Record::IncomingDone { session, packet } => {
                let Some(session) = self.session(session, false) else { return };
                let old = session.incoming.remove(&packet);
                self.record_dead(old);
            }
            _ => (),
        }
    }

    /// Ends a replay: deletes incomplete sessions, and deliveries whose message `add_reference` does not find.
    pub(super) fn finish_replay(&mut self, mut add_reference: impl FnMut(u64) -> bool) {
        let parts = self.sessions.iter().filter(|(_, session)| session.place.is_none());
        let parts: Vec<u64> = parts.map(|(session, _)| *session).collect();
        parts.into_iter().for_each(|session| self.end(session, &mut |_| ()));
        let Self { sessions, live, .. } = self;
        for session in sessions.values_mut().filter(|session| !session.queue.is_empty()) {
            session.queue.retain(|_, delivery| {
                let keep = !delivery.refers() || add_reference(delivery.message);
                *live -= if keep { 0 } else { u64::from(delivery.place.length) };
                keep
            });
        }
    }

    /// The place of the live record that sets the same object as `record`.
    pub(super) fn place(&self, record: &Record<'_>) -> Option<Place> {
        let session = |session: SessionId| self.sessions.get(&session.0);
        match *record {
            Record::Session { session: id, .. } => session(id)?.place,
            Record::Subscribe { session: id, filter, .. } => {
                session(id)?.subscriptions.get(filter).copied()
            }
            Record::Queue { session: id, delivery, .. } => {
                session(id)?.queue.get(&delivery.0).map(|it| it.place)
            }
            Record::Incoming { session: id, packet } => session(id)?.incoming.get(&packet).copied(),
            _ => None,
        }
    }

    /// The phase of a delivery.
    pub(super) fn phase(&self, session: SessionId, delivery: u64) -> Option<Phase> {
        Some(self.sessions.get(&session.0)?.queue.get(&delivery)?.phase)
    }

    /// The places of all live records.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        self.sessions.values().flat_map(|session| {
            let queue = session.queue.values().map(|it| it.place);
            let others = session.subscriptions.values().chain(session.incoming.values()).copied();
            session.place.into_iter().chain(queue).chain(others)
        })
    }

    /// The deliveries that were sent.
    pub(super) fn sent(&self) -> impl Iterator<Item = (Place, Phase)> {
        let all = self.sessions.values().flat_map(|session| session.queue.values());
        all.filter(|it| it.phase != Phase::Queued).map(|it| (it.place, it.phase))
    }

    fn session(&mut self, session: SessionId, create: bool) -> Option<&mut Session> {
        match create {
            true => Some(self.sessions.entry(session.0).or_default()),
            false => self.sessions.get_mut(&session.0),
        }
    }

    fn delivery(&mut self, session: SessionId, delivery: u64) -> Option<&mut Delivery> {
        self.sessions.get_mut(&session.0)?.queue.get_mut(&delivery)
    }

    fn end(&mut self, session: u64, release: &mut impl FnMut(u64)) {
        let Some(old) = self.sessions.remove(&session) else { return };
        self.record_dead(old.place);
        old.subscriptions.into_values().for_each(|place| self.record_dead(Some(place)));
        old.incoming.into_values().for_each(|place| self.record_dead(Some(place)));
        for delivery in old.queue.into_values() {
            self.record_dead(Some(delivery.place));
            if delivery.refers() {
                release(delivery.message);
            }
        }
    }

    fn replaced(&mut self, old: Option<Place>, new: Place) {
        self.record_dead(old);
        self.live += u64::from(new.length);
    }

    fn record_dead(&mut self, old: Option<Place>) {
        self.live -= old.map_or(0, |old| u64::from(old.length));
    }
}
