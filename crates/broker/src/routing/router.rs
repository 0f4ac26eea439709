//! The router: the table of subscriptions and retained messages.

mod clients;
mod hand_over;
mod receivers;
mod send_retained;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::{QoS, Reason, RetainHandling, topic};

use crate::access::{Covered, Policy};
use crate::config::Limits;
use crate::content::attributes;
use crate::content::index::{ContentIndex, Owner};
use crate::content::path::{has_content, path};
use crate::durable::recovery::RecoveredRoutes;
use crate::durable::{Lsn, Wal};
use crate::events::drops::{DropReason, Drops};
use crate::model::client_key::ClientKey;
use crate::model::delivery::DeliveryBatch;
use crate::model::group_id::group_id;
use crate::model::message::{Message, Source};
use crate::model::subscribers::{ClientIndex, Subscribers, Subscription};
use crate::model::trie::Trie;
use crate::peers::Peers;
use crate::requests::{JOURNAL_FULL, PendingRetained, Subscriber, SubscriptionRequest};
use crate::routing::retained::Retained;
use crate::routing::router::clients::{Client, node_of};
use crate::routing::router::receivers::{RETAINING, choose, dropped, how, is_excluded, is_for};
use crate::routing::router_wal::RouterWal;

/// The table.
pub(crate) struct Router {
    subscribers: Trie<Subscribers>,
    retained: Retained,
    /// The broker's own messages below `$SYS`: retained, but not persistent.
    system: Retained,
    /// Maximum number of retained messages delivered per SUBSCRIBE.
    most: usize,
    content: ContentIndex,
    clients: Vec<Client>,
    free: Vec<ClientIndex>,
    /// The other nodes of the cluster.
    nodes: Vec<ClientIndex>,
    indices: HashMap<ClientKey, ClientIndex, foldhash::fast::RandomState>,
    /// The number of messages routed so far; identifies a message in [`Client::last`].
    routed: u64,
    /// Receivers of the current messages: by subscription, and by shared subscription.
    found: Vec<(u32, ClientIndex, Subscription)>,
    alone: Vec<(u32, ClientIndex, Subscription)>,
    wal: RouterWal,
    drops: Drops,
    /// The state of the cluster, if this broker is a node of one.
    peers: Option<Arc<Peers>>,
    /// Persistent receivers of the current message: the session's ID, its partition, and the index of the
    /// delivery.
    durable: Vec<(u64, u16, u32)>,
    /// Maximum number of events matched together, so that their deliveries fit the available permits. It
    /// adapts to the deliveries per event of the last ones, and starts low.
    events_at_once: usize,
}

/// Maximum and initial number of events matched together. Larger cohorts gain nothing.
const MAX_EVENTS: usize = 4096;
const INITIAL_EVENTS: usize = 64;

/// Number of minimal messages that fit a client's output buffer before any is queued.
const SENT_IMMEDIATELY: usize = 16 * 1024;

impl Router {
    /// A router with the recovered state, as far as `policy` permits the subscriptions.
    pub(crate) fn new(
        limits: &Limits,
        wal: Wal,
        restored: RecoveredRoutes,
        (policy, drops, peers): (&Policy, Drops, Option<Arc<Peers>>),
    ) -> Self {
        let RecoveredRoutes { clients, retained, next_message, next_delivery } = restored;
        let mut router = Self {
            subscribers: Trie::default(),
            retained: Retained::new(limits.retained, limits.retained_bytes),
            system: Retained::new(usize::MAX, usize::MAX),
            most: 0,
            content: ContentIndex::new(),
            clients: Vec::new(),
            free: Vec::new(),
            nodes: Vec::new(),
            indices: HashMap::default(),
            routed: 0,
            found: Vec::new(),
            alone: Vec::new(),
            wal: RouterWal::new(wal, next_message, next_delivery),
            drops,
            peers,
            durable: Vec::new(),
            events_at_once: INITIAL_EVENTS,
        };
        router.set_queued_messages(limits.queued_messages);
        retained.into_iter().for_each(|message| router.retained.restore(message));
        for (client, requests) in clients {
            let identity = client.identity.clone();
            let index = router.index(client);
            for request in &requests {
                let filter = path(&request.key).map_or("", |path| path.filter);
                let covered = policy.may_subscribe(&identity, filter).unwrap_or(request.covered);
                router.file(index, request, covered);
            }
            // No client is connected yet.
            router.clients[index as usize].online = false;
        }
        router
    }

    /// Sets the limit on the messages queued for a client, which a reload may change.
    pub(crate) fn set_queued_messages(&mut self, most: usize) {
        self.most = most.saturating_add(SENT_IMMEDIATELY);
    }

    /// Performs a bounded step of the index's adaptation: once per cohort, while no other operation can use
    /// the table.
    pub(crate) fn tend(&mut self) {
        self.content.arrange();
    }

    /// Appends the records of the cohort to the WAL.
    pub(crate) fn end_cohort(&mut self) -> Lsn {
        self.wal.end()
    }

    /// Adds the deliveries of `messages`, which is not empty, to the batches of their receivers' partitions.
    /// Routes at least one message, and no more than fit `room` deliveries. Returns the number of messages
    /// routed, and appends their results to `reasons`.
    pub(crate) fn publish(
        &mut self,
        messages: &[Arc<Message>],
        batches: &mut [DeliveryBatch],
        (policy, now): (&Policy, Duration),
        (room, all_reasons): (usize, &mut Vec<Reason>),
    ) -> usize {
        let Self { subscribers, retained, content, clients, found, alone, routed, .. } = self;
        let Self { nodes, wal, durable, events_at_once, drops, peers, indices, .. } = self;
        let (keeps, is_full) = (wal.is_on(), wal.is_full());
        let before = all_reasons.len();
        all_reasons.resize(before + messages.len(), Reason::NO_MATCHING_SUBSCRIBERS);
        let reasons = &mut all_reasons[before..];
        let (mut asked, mut end, mut not_retained) = (0, 0, Vec::new());
        for (n, message) in messages.iter().enumerate() {
            if found.len() + alone.len() >= room || asked >= *events_at_once {
                break;
            }
            end = n + 1;
            if let Source::Mark(_) = message.source {
                continue;
            }
            if is_full && message.wants_keeping() {
                reasons[n] = JOURNAL_FULL;
                if !message.is_kept_by_sender {
                    drops.add(wal.full_reason(), 1, || dropped(message));
                }
                continue;
            }
            if message.is_to_be_retained() {
                if message.source == Source::Retained && retained.has(&message.topic) {
                    continue;
                }
                retained.sweep(now, |message| {
                    wal.forget(message);
                    drops.add(DropReason::RetainedExpired, 1, || dropped(message));
                });
                if let Err(refused) = retained.keep(message) {
                    drops.add(DropReason::RetainedFull, 1, || dropped(message));
                    if message.source == Source::Here && !message.is_kept_by_sender {
                        reasons[n] = refused;
                        continue;
                    }
                    // Its publisher, at another broker, was told that it arrives.
                    not_retained.push(n);
                }
            }
            let n = n as u32;
            let is_own = message.source == Source::Here;
            if message.source == Source::Retained {
                continue;
            }
            if message.retain && is_own {
                found.extend(nodes.iter().map(|node| (n, *node, RETAINING)));
            }
            // Encoded once with and once without the payload's fields, for all topic filters.
            let mut events = [None, None];
            subscribers.matching(&message.topic, |here| {
                if !matches!(message.source, Source::Group(_)) {
                    found.extend(here.each.iter().map(|(client, own)| (n, *client, *own)));
                }
                for group in here.groups.iter().filter(|group| is_for(message, group)) {
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
            content.answer(messages, |n, owner| match owner {
                Owner::Client(client, own) => {
                    if !matches!(messages[n as usize].source, Source::Group(_)) {
                        found.push((n, *client, *own));
                    }
                }
                Owner::Group(group) => {
                    let message = &messages[n as usize];
                    if !is_for(message, group) {
                        return;
                    }
                    let chosen = choose(group, message, clients, policy);
                    alone.extend(chosen.map(|(client, own)| (n, client, own)));
                }
            });
            let come_to = found.len() + alone.len() - before;
            let fit = room / come_to.div_ceil(asked).max(1);
            *events_at_once = fit.clamp(1, (*events_at_once * 2).min(MAX_EVENTS));
            found.sort_by_key(|(n, ..)| *n);
            alone.sort_by_key(|(n, ..)| *n);
        }
        let (mut found, mut alone) = (found.drain(..).peekable(), alone.drain(..).peekable());
        for (n, message) in messages[..end].iter().enumerate() {
            *routed += 1;
            let is_handed = matches!(message.source, Source::Handed(_));
            if let Source::Mark(adoption) = message.source
                && let Some(peers) = peers
                && let Some(node) = node_of(message, indices, clients)
                && let Some(session) = peers.handovers.marked(adoption, node)
            {
                wal.handed_over(session);
            }
            while let Some((_, client, own)) = found.next_if(|(at, ..)| *at as usize == n) {
                let client = &clients[client as usize];
                if own.options.no_local && message.from == Some(client.key) {
                    continue;
                }
                if (client.is_special() || is_handed)
                    && is_excluded(client, message, node_of(message, indices, clients), peers)
                {
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
                if client.durable_id != 0 {
                    durable.push((
                        client.durable_id,
                        client.key.partition,
                        batch.deliveries.len() as u32,
                    ));
                }
                batch.add(client.key, message, how(own, message));
            }
            // A shared subscription delivers in addition to the member's own subscriptions.
            while let Some((_, client, own)) = alone.next_if(|(at, ..)| *at as usize == n) {
                reasons[n] = Reason::SUCCESS;
                let client = &clients[client as usize];
                let batch = &mut batches[usize::from(client.key.partition)];
                if client.durable_id != 0 {
                    durable.push((
                        client.durable_id,
                        client.key.partition,
                        batch.deliveries.len() as u32,
                    ));
                }
                batch.add(client.key, message, how(own, message));
            }
            if matches!(message.source, Source::Group(_)) && reasons[n] != Reason::SUCCESS {
                drops.add(DropReason::ClusterNoMember, 1, || dropped(message));
            }
            if keeps && !reasons[n].is_failure() {
                if message.is_to_be_retained()
                    && !not_retained.contains(&n)
                    && (message.source != Source::Retained || retained.is_current(message))
                {
                    // A later message of this cohort may have removed it.
                    match message.has_expired(now) && !retained.holds(message) {
                        true => wal.unretain(message),
                        false => wal.retain(message),
                    }
                }
                for (session, partition, at) in durable.drain(..) {
                    let delivery = &mut batches[usize::from(partition)].deliveries[at as usize];
                    if delivery.how.qos != QoS::AtMostOnce {
                        wal.queue(session, message, delivery);
                    }
                }
                wal.come(message);
            }
        }
        all_reasons.truncate(before + end);
        end
    }

    /// As [`publish`](Self::publish), for messages of the broker's own.
    pub(crate) fn tell(
        &mut self,
        messages: &[Arc<Message>],
        batches: &mut [DeliveryBatch],
        (policy, now): (&Policy, Duration),
    ) {
        for message in messages {
            // These messages are few and have no limit.
            let _ = self.system.keep(message);
        }
        self.publish_own(messages, batches, (policy, now));
    }

    /// The retained messages.
    pub(crate) fn retained(&self) -> &Retained {
        &self.retained
    }

    /// Adds subscriptions. Returns those whose retained messages are to be [delivered](Self::send_retained).
    pub(crate) fn subscribe(
        &mut self,
        client: Subscriber,
        mut requests: Vec<SubscriptionRequest>,
    ) -> PendingRetained {
        let key = client.key;
        let index = self.index(client);
        // Without shared subscriptions, its presence was not reported.
        self.clients[index as usize].online = true;
        requests.retain(|request| {
            let Some((path, existed)) = self.file(index, request, request.covered) else {
                return false;
            };
            let send = match request.options.retain_handling {
                RetainHandling::Send => true,
                RetainHandling::SendIfNew => !existed,
                RetainHandling::DoNotSend => false,
            };
            send && path.group.is_none()
        });
        PendingRetained { client: key, requests, progress: Default::default() }
    }

    /// Whether this client's session is persistent.
    pub(crate) fn is_durable(&self, client: ClientKey) -> bool {
        self.indices.get(&client).is_some_and(|index| self.clients[*index as usize].durable_id != 0)
    }

    /// Adds a subscription. Returns its path, and whether it replaces one.
    fn file<'w>(
        &mut self,
        client: ClientIndex,
        request: &'w SubscriptionRequest,
        covered: Covered,
    ) -> Option<(topic::Shared<'w>, bool)> {
        let path = path(&request.key)?;
        let SubscriptionRequest { options, identifier, .. } = *request;
        let own = Subscription { options, identifier, covered };
        let here = self.subscribers.entry(path.filter, Subscribers::default);
        let existed = match &request.content {
            None => {
                let group = path.group.map(|group| (group, group_id(&request.key)));
                here.add(group, client, own)
            }
            Some(content) => {
                let numbered = here.number(content.json, || self.content.number());
                let of = (client, path.group, &*request.key);
                let (existed, is_new) = self.content.add(of, numbered.number, content, own);
                numbered.count += usize::from(is_new);
                existed
            }
        };
        Some((path, existed))
    }

    /// Removes subscriptions by key.
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
}
