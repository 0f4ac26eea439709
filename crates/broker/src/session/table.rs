//! One partition of the sessions.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::num::NonZero;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use phalanx::sync::Trigger;
use phalanx_mqtt::{PacketId, PropertyBuffer, Reason};
use phalanx_store::{Entry as Notes, Record, SessionId};

use crate::counters::Counters;
use crate::durable::restored::RestoredSessions;
use crate::durable::{Ledger, Ticket};
use crate::message::Message;
use crate::routing::delivery::Batch;
use crate::routing::subscribers::cost;
use crate::routing::{Subscriber, UnderWay, Wanted};
use crate::session::close::After;
use crate::session::key::ClientKey;
use crate::session::operations::Pulled;
use crate::session::outgoing::{Answered, Desk};
use crate::session::parting::Partings;
use crate::session::state::{Begun, Session};
use crate::terms::Followed;

/// What somebody is subscribed to.
pub(super) type Granted = (Subscriber, Vec<Wanted>);

/// For each message of QoS 2 whether it is new; and what says when they are noted, where another connection may ask.
pub(crate) type Beginning = (Vec<bool>, Option<Arc<Begun>>);

/// Memory that a connection keeps for what it sends, while there is nothing, in bytes; and as much again.
const IDLE: usize = 16 * 1024;

/// The sessions of one partition.
pub(crate) struct Sessions {
    pub(super) partition: u16,
    pub(super) partitions: usize,
    slots: Vec<Slot>,
    free: Vec<u32>,
    pub(super) names: HashMap<Arc<str>, u32>,
    /// Connections so far.
    pub(super) links: u64,
    /// When sessions that have no connection are to be looked after: the time, and which.
    pub(super) due: BTreeSet<(Duration, u32, u32)>,
    /// Whether an operation waits for that; and how it is told to look again.
    pub(super) is_kept: bool,
    pub(super) keeper: Option<Trigger<()>>,
    pub(super) limits: Followed,
    pub(super) counters: Counters,
    scratch: PropertyBuffer,
    pub(super) ledger: Ledger,
    pub(super) under_way: UnderWay,
    /// What is to be kept of what was changed just now, and the ticket of what was last.
    pub(super) notes: Notes,
    ticket: Ticket,
    /// The ticket of the last session's end, and whether one is noted that has none yet.
    pub(super) ended: Ticket,
    pub(super) ends: bool,
    pub(super) partings: Partings,
    /// What was there when the program began, and is not looked after yet.
    pub(super) restored: Option<RestoredSessions>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    session: Option<Box<Session>>,
}

impl Sessions {
    pub(crate) fn new(
        (partition, partitions): (usize, usize),
        limits: Followed,
        counters: Counters,
        (ledger, under_way): (Ledger, UnderWay),
        mut restored: RestoredSessions,
    ) -> Self {
        let sessions = std::mem::take(&mut restored.sessions);
        let parting = std::mem::take(&mut restored.partings);
        restored.count = sessions.len() as u32;
        let mut table = Self {
            partition: u16::try_from(partition).expect("no more partitions than processors"),
            partitions,
            slots: Vec::new(),
            free: Vec::new(),
            names: HashMap::new(),
            links: 0,
            due: BTreeSet::new(),
            is_kept: false,
            keeper: None,
            limits,
            counters,
            scratch: PropertyBuffer::new(),
            ledger,
            under_way,
            notes: Notes::new(),
            ticket: Ticket::default(),
            ended: Ticket::default(),
            ends: false,
            partings: Partings::default(),
            restored: Some(restored),
        };
        for (number, will) in parting {
            table.partings.restore(number, None, will);
        }
        for mut session in sessions {
            let partings = std::mem::take(&mut session.partings);
            let session = session.into_session();
            let number = session.number;
            session.keys.iter().for_each(|key| table.counters.subscribed(key));
            let slot = table.add(session);
            let key = Some(table.key(slot));
            partings.into_iter().for_each(|will| table.partings.restore(number, key, will));
        }
        table
    }

    /// Notes what was changed, and gives the ticket that all changes here have so far: at the end of each operation
    /// on the table.
    pub(super) fn note(&mut self) -> Ticket {
        if !self.notes.is_empty() {
            self.ticket = self.ledger.note(&mut self.notes);
            if std::mem::take(&mut self.ends) {
                self.ended = self.ticket;
            }
        }
        self.ticket
    }

    pub(super) fn at(&mut self, slot: u32) -> Option<&mut Session> {
        self.slots.get_mut(slot as usize)?.session.as_deref_mut()
    }

    /// The session of this key, if it still is one.
    pub(crate) fn get(&mut self, key: ClientKey) -> Option<&mut Session> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        slot.session.as_deref_mut().filter(|_| slot.generation == key.generation)
    }

    pub(super) fn key(&self, slot: u32) -> ClientKey {
        let generation = self.slots[slot as usize].generation;
        ClientKey { partition: self.partition, slot, generation }
    }

    pub(super) fn add(&mut self, session: Session) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("fewer than 2³² sessions")
        });
        self.names.insert(session.client_id.clone(), slot);
        self.counters.sessions.add(1);
        self.slots[slot as usize].session = Some(Box::new(session));
        slot
    }

    /// Ends a session, whose will is published if there is one.
    pub(super) fn remove(&mut self, number: u32, will: Option<Message>, after: &mut After) {
        let key = self.key(number);
        let slot = &mut self.slots[number as usize];
        let Some(session) = slot.session.take() else { return };
        session.watched.map(|time| self.due.remove(&(time, key.slot, key.generation)));
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(number);
        session.discard(&self.counters.drops);
        self.names.remove(&session.client_id);
        self.counters.sessions.add(-1);
        session.keys.iter().for_each(|key| self.counters.unsubscribed(key));
        if session.routed {
            after.forget.push((key, session.keys.into_iter().collect()));
        }
        after.wills.extend(will.map(|will| self.part_of(session.number, None, will)));
        if session.number != 0 {
            self.ends = true;
            self.end(session.number);
        }
    }

    /// Hands messages to their sessions; those that are no more need none.
    pub(crate) fn deliver(&mut self, batch: &Batch, now: Duration) {
        self.limits.follow();
        let mut delivered = 0;
        for delivery in &batch.deliveries {
            let message = &batch.messages[delivery.message as usize];
            let slot = &mut self.slots[delivery.client.slot as usize];
            if let Some(session) = &mut slot.session
                && slot.generation == delivery.client.generation
            {
                let Self { limits, scratch, notes, counters, .. } = self;
                let desk = &mut Desk { limits, scratch, notes, now, drops: &counters.drops };
                let is_accepted = session.deliver(message, &delivery.how, delivery.number, desk);
                delivered += u64::from(is_accepted);
            }
        }
        self.counters.delivered.add(delivered);
        self.note();
    }

    /// What a client says on the connection numbered `link` of messages that were sent to it.
    pub(super) fn answered(&mut self, key: ClientKey, link: u64, answers: &[Answered]) {
        let mut notes = std::mem::take(&mut self.notes);
        if let Some(session) = self.get(key).filter(|session| session.is_on(link)) {
            session.answered(answers, &mut notes);
        }
        self.notes = notes;
        self.note();
    }

    /// What the connection numbered `link` is to send, into memory that it had before; where there is nothing,
    /// `waiting` is woken when there is.
    pub(super) fn pull(
        &mut self,
        (key, link): (ClientKey, u64),
        spare: &mut Vec<u8>,
        now: Duration,
        waiting: &Waker,
    ) -> Poll<(Pulled, Ticket)> {
        let closed = |reason| Poll::Ready((Pulled::Closed(reason), Ticket::default()));
        let Some(slot) = self.slots.get_mut(key.slot as usize) else {
            return closed(Reason::UNSPECIFIED_ERROR);
        };
        let session = slot.session.as_mut().filter(|_| slot.generation == key.generation);
        // Whoever has it now has taken it over: who ends a session on its own does not ask any more.
        let Some(session) = session.filter(|session| session.is_on(link)) else {
            return closed(Reason::SESSION_TAKEN_OVER);
        };
        let Self { limits, scratch, notes, counters, .. } = self;
        session.fill(&mut Desk { limits, scratch, notes, now, drops: &counters.drops });
        let Some(link) = session.on(link) else { return closed(Reason::SESSION_TAKEN_OVER) };
        if !link.out.is_empty() {
            let bytes = std::mem::replace(&mut link.out, std::mem::take(spare));
            link.unsent = 0;
            let is_fenced = std::mem::take(&mut link.is_fenced);
            let ticket = self.note();
            let ticket = if is_fenced { ticket } else { Ticket::default() };
            return Poll::Ready((Pulled::Bytes(bytes), ticket));
        }
        // Who waits holds little.
        for memory in [spare, &mut link.out] {
            if memory.capacity() > IDLE {
                *memory = Vec::new();
            }
        }
        link.waiting.wakes(waiting);
        self.note();
        Poll::Pending
    }

    /// Files the subscriptions that there is room for, and gives those; for each how it went.
    pub(super) fn subscribe(
        &mut self,
        key: ClientKey,
        link: u64,
        wanted: Vec<Result<Wanted, Reason>>,
    ) -> (Vec<Reason>, Option<Granted>) {
        self.limits.follow();
        let (most, most_bytes) = (self.limits.subscriptions, self.limits.subscription_bytes as u64);
        let counters = self.counters.clone();
        let mut granted: Vec<Wanted> = Vec::with_capacity(wanted.len());
        let (is_full, is_behind) = (self.ledger.is_full(), self.ledger.is_behind());
        let mut notes = std::mem::take(&mut self.notes);
        let Some(session) = self.get(key).filter(|session| session.is_on(link)) else {
            return (vec![Reason::UNSPECIFIED_ERROR; wanted.len()], None);
        };
        let kept = session.kept();
        if is_behind && kept != 0 {
            self.refused_subscriptions(key, wanted.iter().flatten().count());
            return (vec![Reason::QUOTA_EXCEEDED; wanted.len()], None);
        }
        let (mut places, mut refused) = (HashMap::new(), 0);
        let mut file = |wanted: Result<Wanted, Reason>| {
            let wanted = match wanted {
                Ok(wanted) => wanted,
                Err(refused) => return refused,
            };
            if !session.keys.contains(&wanted.key) {
                // One that is there already adds nothing to what is kept: clients repeat theirs when they are back.
                if is_full && kept != 0 {
                    refused += 1;
                    return Reason::QUOTA_EXCEEDED;
                }
                let bytes = counters.subscription_bytes.get() + cost(&wanted.key) as u64;
                if session.keys.len() >= most || bytes > most_bytes {
                    return Reason::QUOTA_EXCEEDED;
                }
                counters.subscribed(&wanted.key);
                session.shared += usize::from(is_shared(&wanted.key));
                session.keys.insert(wanted.key.clone());
            }
            if kept != 0 {
                notes.push(&Record::Subscribe {
                    session: SessionId(kept),
                    filter: &wanted.key,
                    options: wanted.options.to_byte(),
                    identifier: wanted.identifier.map_or(0, NonZero::get),
                    // It is in the key.
                    condition: "",
                });
            }
            let reason = Reason(wanted.options.qos as u8);
            // Named twice in a packet, it is one subscription, as it is named last.
            match places.entry(wanted.key.clone()) {
                Entry::Occupied(place) => granted[*place.get()] = wanted,
                Entry::Vacant(place) => {
                    place.insert(granted.len());
                    granted.push(wanted);
                }
            }
            reason
        };
        let reasons = wanted.into_iter().map(&mut file).collect();
        session.routed |= !granted.is_empty();
        let client = Subscriber { key, kept, identity: session.identity() };
        let granted = (!granted.is_empty()).then_some((client, granted));
        self.notes = notes;
        self.note();
        self.refused_subscriptions(key, refused);
        (reasons, granted)
    }

    /// Takes subscriptions away, and says for each whether it was there.
    pub(super) fn unsubscribe(&mut self, key: ClientKey, keys: &[Box<str>]) -> Vec<Reason> {
        let counters = self.counters.clone();
        let Some(session) = self.get(key) else {
            return vec![Reason::UNSPECIFIED_ERROR; keys.len()];
        };
        let mut remove = |key: &str| match session.keys.remove(key) {
            true => {
                session.shared -= usize::from(is_shared(key));
                counters.unsubscribed(key);
                Reason::SUCCESS
            }
            false => Reason::NO_SUBSCRIPTION_EXISTED,
        };
        keys.iter().map(|key| remove(key)).collect()
    }

    /// Notes that subscriptions are no more that were taken away before, of those that it went for as `reasons` say.
    pub(super) fn unsubscribed(
        &mut self,
        key: ClientKey,
        keys: &[Box<str>],
        reasons: &[Reason],
    ) -> Ticket {
        let mut notes = std::mem::take(&mut self.notes);
        if let Some(session) = self.get(key).filter(|session| session.kept() != 0) {
            let session_id = SessionId(session.number);
            let gone = keys.iter().zip(reasons).filter(|(_, reason)| **reason == Reason::SUCCESS);
            // One may have been asked for again.
            for (filter, _) in gone.filter(|(filter, _)| !session.keys.contains(*filter)) {
                notes.push(&Record::Unsubscribe { session: session_id, filter });
            }
        }
        self.notes = notes;
        self.note()
    }

    /// Has subscriptions again that were taken away here and maybe nowhere else.
    pub(super) fn keep(&mut self, key: ClientKey, keys: impl Iterator<Item = Box<str>>) {
        let counters = self.counters.clone();
        let Some(session) = self.get(key) else { return };
        for key in keys {
            if !session.keys.contains(&key) {
                session.shared += usize::from(is_shared(&key));
                counters.subscribed(&key);
                session.keys.insert(key);
            }
        }
    }

    /// Notes that messages of QoS 2 were begun on the connection numbered `link`, and says for each whether that
    /// is new. None is begun where there are too many, or where one is that another connection has begun just now.
    pub(super) fn begin(
        &mut self,
        key: ClientKey,
        link: u64,
        ids: &[PacketId],
    ) -> Result<Beginning, Reason> {
        let most = usize::from(self.limits.receive_maximum);
        let session = self.get(key).filter(|session| session.is_on(link));
        let Some(session) = session else { return Err(Reason::SESSION_TAKEN_OVER) };
        let is_open = |id: &PacketId| {
            let begun = session.received.get(id).and_then(Option::as_ref);
            begun.is_some_and(|begun| !begun.is_routed() && !begun.has_refused(*id))
        };
        if ids.iter().any(is_open) {
            return Err(Reason::SERVER_BUSY);
        }
        let outlives = session.expiry > 0 || session.kept() != 0;
        let own = outlives.then(|| Arc::new(Begun::default()));
        let mut begin = |id: &PacketId| match session.received.entry(*id) {
            // The connection that has begun it has ended before it could say that it was refused.
            Entry::Occupied(mut place)
                if place.get().as_ref().is_some_and(|begun| begun.has_refused(*id)) =>
            {
                place.insert(own.clone());
                true
            }
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(own.clone());
                true
            }
        };
        let begun: Vec<_> = ids.iter().map(&mut begin).collect();
        if session.received.len() <= most {
            return Ok((begun, own));
        }
        for (id, _) in ids.iter().zip(&begun).filter(|(_, new)| **new) {
            session.received.remove(id);
        }
        Err(Reason::RECEIVE_MAXIMUM_EXCEEDED)
    }

    /// Notes that messages of QoS 2 will not be sent again. For each whether it was begun.
    pub(super) fn release(
        &mut self,
        key: ClientKey,
        link: u64,
        ids: &[PacketId],
    ) -> (Vec<bool>, Ticket) {
        let mut notes = std::mem::take(&mut self.notes);
        let session = self.get(key).filter(|session| session.is_on(link));
        let Some(session) = session else { return (vec![false; ids.len()], Ticket::default()) };
        let kept = session.kept();
        let mut release = |id: &PacketId| {
            let is_known = session.received.remove(id).is_some();
            if is_known && kept != 0 {
                let (session, packet) = (SessionId(kept), id.get());
                notes.push(&Record::IncomingDone { session, packet });
            }
            is_known
        };
        let known = ids.iter().map(&mut release).collect();
        self.notes = notes;
        (known, self.note())
    }
}

fn is_shared(key: &str) -> bool {
    key.starts_with("$share/")
}
