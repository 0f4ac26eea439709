//! One partition of the sessions.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use phalanx::{Event, Trigger, event};
use phalanx_mqtt::{PacketId, PropertyBuffer, Reason};

use crate::access::Identity;
use crate::config::Limits;
use crate::counters::Counters;
use crate::routing::Wanted;
use crate::routing::delivery::Batch;
use crate::session::close::After;
use crate::session::key::ClientKey;
use crate::session::operations::Pulled;
use crate::session::state::Session;

/// What somebody is subscribed to.
pub(super) type Granted = (Identity, Vec<Wanted>);

/// The sessions of one partition.
pub(crate) struct Sessions {
    pub(super) partition: u16,
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
    /// Sessions that there may be here.
    pub(super) most: usize,
    pub(super) limits: Arc<Limits>,
    counters: Counters,
    scratch: PropertyBuffer,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    session: Option<Box<Session>>,
}

impl Sessions {
    pub(crate) fn new(
        partition: usize,
        partitions: usize,
        limits: Arc<Limits>,
        counters: Counters,
    ) -> Self {
        Self {
            partition: u16::try_from(partition).expect("no more partitions than processors"),
            slots: Vec::new(),
            free: Vec::new(),
            names: HashMap::new(),
            links: 0,
            due: BTreeSet::new(),
            is_kept: false,
            keeper: None,
            most: limits.sessions.div_ceil(partitions),
            limits,
            counters,
            scratch: PropertyBuffer::new(),
        }
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

    /// Ends a session.
    pub(super) fn remove(&mut self, number: u32, after: &mut After) {
        let key = self.key(number);
        let slot = &mut self.slots[number as usize];
        let Some(session) = slot.session.take() else { return };
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(number);
        self.names.remove(&session.client_id);
        self.counters.sessions.add(-1);
        self.counters.subscriptions.add(-(session.keys.len() as i64));
        if session.routed {
            after.forget.push((key, session.keys.into_iter().collect()));
        }
    }

    /// Hands messages to their sessions; those that are no more need none.
    pub(crate) fn deliver(&mut self, batch: &Batch, now: Duration) {
        let (mut delivered, mut dropped) = (0, 0);
        for delivery in &batch.deliveries {
            let message = &batch.messages[delivery.message as usize];
            let slot = &mut self.slots[delivery.client.slot as usize];
            if let Some(session) = &mut slot.session
                && slot.generation == delivery.client.generation
            {
                let Self { limits, scratch, .. } = self;
                match session.deliver(message, &delivery.how, limits, scratch, now) {
                    true => delivered += 1,
                    false => dropped += 1,
                }
            }
        }
        self.counters.delivered.add(delivered);
        if dropped > 0 {
            self.counters.dropped.add(dropped);
        }
    }

    /// What the connection numbered `link` is to send, into memory that it had before; or what happens when there
    /// is something.
    pub(super) fn pull(
        &mut self,
        key: ClientKey,
        link: u64,
        spare: &mut Vec<u8>,
        now: Duration,
    ) -> Result<Pulled, Event<()>> {
        let Some(slot) = self.slots.get_mut(key.slot as usize) else {
            return Ok(Pulled::Closed(Reason::UNSPECIFIED_ERROR));
        };
        let session = slot.session.as_mut().filter(|_| slot.generation == key.generation);
        // Whoever has it now has taken it over: who ends a session on its own does not ask any more.
        let taken_over = Ok(Pulled::Closed(Reason::SESSION_TAKEN_OVER));
        let Some(session) = session else { return taken_over };
        if session.on(link).is_none() {
            return taken_over;
        }
        session.fill(&mut self.scratch, now);
        let Some(link) = session.on(link) else { return taken_over };
        if !link.out.is_empty() {
            return Ok(Pulled::Bytes(std::mem::replace(&mut link.out, std::mem::take(spare))));
        }
        let (trigger, event) = event();
        link.waiting = Some(trigger);
        Err(event)
    }

    /// Files the subscriptions that there is room for, and gives those; for each how it went.
    pub(super) fn subscribe(
        &mut self,
        key: ClientKey,
        link: u64,
        wanted: Vec<Result<Wanted, Reason>>,
    ) -> (Vec<Reason>, Option<Granted>) {
        let most = self.limits.subscriptions;
        let mut granted: Vec<Wanted> = Vec::with_capacity(wanted.len());
        let Some(session) = self.get(key).filter(|session| session.is_on(link)) else {
            return (vec![Reason::UNSPECIFIED_ERROR; wanted.len()], None);
        };
        let (mut places, before) = (HashMap::new(), session.keys.len());
        let mut file = |wanted: Result<Wanted, Reason>| {
            let wanted = match wanted {
                Ok(wanted) => wanted,
                Err(refused) => return refused,
            };
            if !session.keys.contains(&wanted.key) {
                if session.keys.len() >= most {
                    return Reason::QUOTA_EXCEEDED;
                }
                session.shared += usize::from(is_shared(&wanted.key));
                session.keys.insert(wanted.key.clone());
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
        let more = session.keys.len() - before;
        let granted = (!granted.is_empty()).then(|| (session.identity(), granted));
        self.counters.subscriptions.add(more as i64);
        (reasons, granted)
    }

    /// Takes subscriptions away, and says for each whether it was there.
    pub(super) fn unsubscribe(&mut self, key: ClientKey, keys: &[Box<str>]) -> Vec<Reason> {
        let Some(session) = self.get(key) else {
            return vec![Reason::UNSPECIFIED_ERROR; keys.len()];
        };
        let mut remove = |key: &str| match session.keys.remove(key) {
            true => {
                session.shared -= usize::from(is_shared(key));
                Reason::SUCCESS
            }
            false => Reason::NO_SUBSCRIPTION_EXISTED,
        };
        let reasons: Vec<_> = keys.iter().map(|key| remove(key)).collect();
        let gone = reasons.iter().filter(|reason| **reason == Reason::SUCCESS).count();
        self.counters.subscriptions.add(-(gone as i64));
        reasons
    }

    /// Has subscriptions again that were taken away here and maybe nowhere else.
    pub(super) fn keep(&mut self, key: ClientKey, keys: impl Iterator<Item = Box<str>>) {
        let Some(session) = self.get(key) else { return };
        let before = session.keys.len();
        for key in keys {
            let shared = usize::from(is_shared(&key));
            if session.keys.insert(key) {
                session.shared += shared;
            }
        }
        let more = session.keys.len() - before;
        self.counters.subscriptions.add(more as i64);
    }

    /// Notes that messages of QoS 2 were begun on the connection numbered `link`, and says for each whether that
    /// is new. None is begun where there are too many.
    pub(super) fn begin(
        &mut self,
        key: ClientKey,
        link: u64,
        ids: &[PacketId],
    ) -> Result<Vec<bool>, Reason> {
        let most = usize::from(self.limits.receive_maximum);
        let session = self.get(key).filter(|session| session.is_on(link));
        let Some(session) = session else { return Err(Reason::SESSION_TAKEN_OVER) };
        let begun: Vec<_> = ids.iter().map(|id| session.received.insert(*id)).collect();
        if session.received.len() <= most {
            return Ok(begun);
        }
        for (id, _) in ids.iter().zip(&begun).filter(|(_, new)| **new) {
            session.received.remove(id);
        }
        Err(Reason::RECEIVE_MAXIMUM_EXCEEDED)
    }

    /// Notes that messages of QoS 2 will not be sent again. Whether all were begun.
    pub(super) fn release(&mut self, key: ClientKey, link: u64, ids: &[PacketId]) -> bool {
        let session = self.get(key).filter(|session| session.is_on(link));
        let Some(session) = session else { return false };
        ids.iter().filter(|id| session.received.remove(*id)).count() == ids.len()
    }
}

fn is_shared(key: &str) -> bool {
    key.starts_with("$share/")
}
