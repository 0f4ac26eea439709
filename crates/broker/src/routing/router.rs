//! The table of subscriptions and of retained messages, and what is asked of it.

mod owing;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::{QoS, Reason, RetainHandling, topic};

use crate::access::{Covered, Identity, Policy};
use crate::config::Limits;
use crate::content::attributes;
use crate::content::index::{ContentIndex, Owner};
use crate::content::path::{has_content, path};
use crate::drops::{DropReason, Drops};
use crate::durable::restored::RestoredRoutes;
use crate::durable::{Ledger, Ticket};
use crate::message::Message;
use crate::routing::delivery::{Batch, How, Identifiers};
use crate::routing::retained::Retained;
use crate::routing::subscribers::{ClientIndex, Group, Subscribers, Subscription};
use crate::routing::{Keeping, Owing, Subscriber, Wanted};
use crate::session::key::ClientKey;
use crate::trie::Trie;

/// Whom messages are for.
pub(crate) struct Router {
    subscribers: Trie<Subscribers>,
    retained: Retained,
    /// What the broker says of itself: like what is retained, but of this life of its only.
    system: Retained,
    /// So many retained messages are sent for one SUBSCRIBE.
    most: usize,
    content: ContentIndex,
    clients: Vec<Client>,
    free: Vec<ClientIndex>,
    indices: HashMap<ClientKey, ClientIndex, foldhash::fast::RandomState>,
    /// Messages routed so far; each is its own mark in [`Client::last`].
    routed: u64,
    /// Whom the messages at hand are for: their places, and those who get them.
    found: Vec<(u32, ClientIndex, Subscription)>,
    alone: Vec<(u32, ClientIndex, Subscription)>,
    keeping: Keeping,
    drops: Drops,
    /// Whom the message at hand is for that keep it: the numbers that their sessions are kept by, and the places of the
    /// deliveries.
    kept: Vec<(u64, u16, u32)>,
    /// So many events are asked for filters on what they carry before it is known how many those are: as many as there
    /// was room for by what the last have come to, and few at first.
    events_at_once: usize,
}

/// Cohorts of so many events have all that comes of cohorts; and of few.
const EVENTS: usize = 4096;
const FEW_EVENTS: usize = 64;

/// So many of the smallest messages are written to a client before any waits.
const WRITTEN: usize = 16 * 1024;

struct Client {
    key: ClientKey,
    identity: Identity,
    online: bool,
    /// The number that its session is kept by; 0 if it is not.
    kept: u64,
    /// The last message that was for it, and where that stands in its partition's batch: so that a
    /// message is delivered once however many subscriptions want it.
    last: Cell<(u64, usize)>,
}

impl Router {
    /// With what was there before, as far as `policy` lets its owners have it.
    pub(crate) fn new(
        limits: &Limits,
        ledger: Ledger,
        restored: RestoredRoutes,
        (policy, drops): (&Policy, Drops),
    ) -> Self {
        let RestoredRoutes { clients, retained, next_message, next_delivery } = restored;
        let mut router = Self {
            subscribers: Trie::default(),
            retained: Retained::new(limits.retained, limits.retained_bytes),
            system: Retained::new(usize::MAX, usize::MAX),
            most: limits.queued_messages.saturating_add(WRITTEN),
            content: ContentIndex::new(),
            clients: Vec::new(),
            free: Vec::new(),
            indices: HashMap::default(),
            routed: 0,
            found: Vec::new(),
            alone: Vec::new(),
            keeping: Keeping::new(ledger, next_message, next_delivery),
            drops,
            kept: Vec::new(),
            events_at_once: FEW_EVENTS,
        };
        retained.into_iter().for_each(|message| router.retained.restore(message));
        for (client, wanted) in clients {
            let identity = client.identity.clone();
            let index = router.index(client);
            for wanted in &wanted {
                let filter = path(&wanted.key).map_or("", |path| path.filter);
                let covered = policy.may_subscribe(&identity, filter).unwrap_or(wanted.covered);
                router.file(index, wanted, covered);
            }
            // Nobody is connected yet.
            router.clients[index as usize].online = false;
        }
        router
    }

    /// Does a bounded part of what keeps the table fast as it changes: once a cohort, as nobody is served meanwhile.
    pub(crate) fn tend(&mut self) {
        self.content.arrange();
    }

    /// Notes in the ledger what was done since the last time.
    pub(crate) fn note(&mut self) -> Ticket {
        self.keeping.end()
    }

    /// Adds `messages`, of which there are some, to the batches of those whom they are for: by the partitions' numbers. No
    /// more of them than come to as many deliveries as there is `room` for, but one at least: how many comes back. Adds to
    /// `reasons` how it went for each of these.
    pub(crate) fn publish(
        &mut self,
        messages: &[Arc<Message>],
        batches: &mut [Batch],
        (policy, now): (&Policy, Duration),
        (room, all_reasons): (usize, &mut Vec<Reason>),
    ) -> usize {
        let Self { subscribers, retained, content, clients, found, alone, routed, .. } = self;
        let Self { keeping, kept, events_at_once, drops, .. } = self;
        let (keeps, is_full) = (keeping.is_on(), keeping.is_full());
        let before = all_reasons.len();
        all_reasons.resize(before + messages.len(), Reason::NO_MATCHING_SUBSCRIBERS);
        let reasons = &mut all_reasons[before..];
        let (mut asked, mut end) = (0, 0);
        for (n, message) in messages.iter().enumerate() {
            if found.len() + alone.len() >= room || asked >= *events_at_once {
                break;
            }
            end = n + 1;
            if is_full && message.wants_keeping() {
                reasons[n] = Reason::QUOTA_EXCEEDED;
                drops.add(keeping.full_reason(), 1, || example(message));
                continue;
            }
            if message.retain {
                retained.sweep(now, |message| {
                    keeping.forget(message);
                    drops.add(DropReason::RetainedExpired, 1, || example(message));
                });
                if let Err(refused) = retained.keep(message) {
                    reasons[n] = refused;
                    drops.add(DropReason::RetainedFull, 1, || example(message));
                    continue;
                }
            }
            let n = n as u32;
            // Coded once, with the payload's fields and without, and asked for each topic filter.
            let mut events = [None, None];
            subscribers.matching(&message.topic, |here| {
                found.extend(here.each.iter().map(|(client, own)| (n, *client, *own)));
                for group in &here.groups {
                    let chosen = choose(group, message, clients, policy);
                    alone.extend(chosen.map(|(client, own)| (n, client, own)));
                }
                for numbered in &here.content {
                    let event = events[usize::from(numbered.json)]
                        .get_or_insert_with(|| attributes::code(message, numbered.json, content));
                    content.ask(n, numbered.number, event.clone());
                    asked += 1;
                }
            });
        }
        if asked > 0 {
            let before = found.len() + alone.len();
            content.answer(|n, owner| match owner {
                Owner::Client(client, own) => found.push((n, *client, *own)),
                Owner::Group(group) => {
                    let chosen = choose(group, &messages[n as usize], clients, policy);
                    alone.extend(chosen.map(|(client, own)| (n, client, own)));
                }
            });
            let come_to = found.len() + alone.len() - before;
            let fit = room / come_to.div_ceil(asked).max(1);
            *events_at_once = fit.clamp(1, (*events_at_once * 2).min(EVENTS));
            found.sort_by_key(|(n, ..)| *n);
            alone.sort_by_key(|(n, ..)| *n);
        }
        let (mut found, mut alone) = (found.drain(..).peekable(), alone.drain(..).peekable());
        for (n, message) in messages[..end].iter().enumerate() {
            *routed += 1;
            while let Some((_, client, own)) = found.next_if(|(at, ..)| *at as usize == n) {
                let client = &clients[client as usize];
                if own.options.no_local && message.from == Some(client.key) {
                    continue;
                }
                if !policy.may_receive(own.covered, &client.identity, &message.topic) {
                    continue;
                }
                reasons[n] = Reason::SUCCESS;
                let batch = &mut batches[usize::from(client.key.partition)];
                let (last, at) = client.last.get();
                if last == *routed {
                    let how = &mut batch.deliveries[at].how;
                    how.qos = how.qos.max(own.options.qos.min(message.qos));
                    how.retain |= own.options.retain_as_published && message.retain;
                    how.identifiers.add(own.identifier);
                    continue;
                }
                client.last.set((*routed, batch.deliveries.len()));
                if client.kept != 0 {
                    kept.push((client.kept, client.key.partition, batch.deliveries.len() as u32));
                }
                batch.add(client.key, message, how(own, message));
            }
            // A group's message is its member's besides what that gets for itself.
            while let Some((_, client, own)) = alone.next_if(|(at, ..)| *at as usize == n) {
                reasons[n] = Reason::SUCCESS;
                let client = &clients[client as usize];
                let batch = &mut batches[usize::from(client.key.partition)];
                if client.kept != 0 {
                    kept.push((client.kept, client.key.partition, batch.deliveries.len() as u32));
                }
                batch.add(client.key, message, how(own, message));
            }
            if keeps && !reasons[n].is_failure() {
                if message.retain {
                    keeping.retain(message);
                }
                for (session, partition, at) in kept.drain(..) {
                    let delivery = &mut batches[usize::from(partition)].deliveries[at as usize];
                    if delivery.how.qos != QoS::AtMostOnce {
                        keeping.queue(session, message, delivery);
                    }
                }
                keeping.come(message);
            }
        }
        all_reasons.truncate(before + end);
        end
    }

    /// As [`publish`](Self::publish), of what the broker says of itself.
    pub(crate) fn tell(
        &mut self,
        messages: &[Arc<Message>],
        batches: &mut [Batch],
        (policy, now): (&Policy, Duration),
    ) {
        for message in messages {
            // There is no bound on these: they are few.
            let _ = self.system.keep(message);
        }
        let (mut reasons, mut routed) = (Vec::new(), 0);
        while routed < messages.len() {
            let (left, room) = (&messages[routed..], (usize::MAX, &mut reasons));
            routed += self.publish(left, batches, (policy, now), room);
        }
    }

    /// How many messages are retained.
    pub(crate) fn retained(&self) -> usize {
        self.retained.count()
    }

    /// Files subscriptions, and says of which retained messages are to be [sent](Self::send_retained).
    pub(crate) fn subscribe(&mut self, client: Subscriber, mut wanted: Vec<Wanted>) -> Owing {
        let key = client.key;
        let index = self.index(client);
        wanted.retain(|wanted| {
            let Some((path, existed)) = self.file(index, wanted, wanted.covered) else {
                return false;
            };
            let send = match wanted.options.retain_handling {
                RetainHandling::Send => true,
                RetainHandling::SendIfNew => !existed,
                RetainHandling::DoNotSend => false,
            };
            send && path.group.is_none()
        });
        Owing { client: key, wanted }
    }

    /// Whether what waits for this client is kept.
    pub(crate) fn is_kept(&self, client: ClientKey) -> bool {
        self.indices.get(&client).is_some_and(|index| self.clients[*index as usize].kept != 0)
    }

    /// Files a subscription, and says what it is for and whether it was there.
    fn file<'w>(
        &mut self,
        client: ClientIndex,
        wanted: &'w Wanted,
        covered: Covered,
    ) -> Option<(topic::Shared<'w>, bool)> {
        let path = path(&wanted.key)?;
        let Wanted { options, identifier, .. } = *wanted;
        let own = Subscription { options, identifier, covered };
        let here = self.subscribers.entry(path.filter, Subscribers::default);
        let existed = match &wanted.content {
            None => here.add(path.group, client, own),
            Some(content) => {
                let numbered = here.number(content.json, || self.content.number());
                let of = (client, path.group, &*wanted.key);
                let (existed, is_new) = self.content.add(of, numbered.number, content, own);
                numbered.count += usize::from(is_new);
                existed
            }
        };
        Some((path, existed))
    }

    /// Takes subscriptions away, by their keys.
    pub(crate) fn unsubscribe(&mut self, client: ClientKey, keys: &[Box<str>]) {
        let Some(&index) = self.indices.get(&client) else { return };
        for key in keys {
            let Some(path) = path(key) else { continue };
            let Some(here) = self.subscribers.get_mut(path.filter) else { continue };
            match has_content(key) {
                false => here.remove(path.group, index),
                true => {
                    let of = (index, path.group.is_some(), &**key);
                    if let Some(json) = self.content.remove(of) {
                        here.one_less(json);
                    }
                }
            }
            if here.is_empty() {
                self.subscribers.remove(path.filter);
            }
        }
    }

    /// Takes a client away whose subscriptions have these keys.
    pub(crate) fn forget(&mut self, client: ClientKey, keys: &[Box<str>]) {
        self.unsubscribe(client, keys);
        if let Some(index) = self.indices.remove(&client) {
            self.free.push(index);
        }
    }

    /// A client has come or gone.
    pub(crate) fn present(&mut self, client: ClientKey, online: bool) {
        if let Some(index) = self.indices.get(&client) {
            self.clients[*index as usize].online = online;
        }
    }

    fn index(&mut self, subscriber: Subscriber) -> ClientIndex {
        let Subscriber { key, kept, identity } = subscriber;
        *self.indices.entry(key).or_insert_with(|| {
            let client = Client { key, identity, online: true, kept, last: Cell::new((0, 0)) };
            match self.free.pop() {
                Some(index) => {
                    self.clients[index as usize] = client;
                    index
                }
                None => {
                    self.clients.push(client);
                    u32::try_from(self.clients.len() - 1).expect("fewer than 2³² clients")
                }
            }
        })
    }
}

/// What the log says of a message.
fn example(message: &Message) -> String {
    format!("{:?}", message.topic)
}

/// Who of a group gets a message.
fn choose(
    group: &Group,
    message: &Message,
    clients: &[Client],
    policy: &Policy,
) -> Option<(ClientIndex, Subscription)> {
    let client = |client: ClientIndex| &clients[client as usize];
    let may = |index, covered| policy.may_receive(covered, &client(index).identity, &message.topic);
    group.choose(group.turn(), may, |index| client(index).online)
}

/// How one subscription wants a message.
fn how(own: Subscription, message: &Message) -> How {
    How {
        qos: own.options.qos.min(message.qos),
        retain: own.options.retain_as_published && message.retain,
        identifiers: Identifiers::of(own.identifier),
    }
}
