//! The table of subscriptions and of retained messages, and what is asked of it.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::{Reason, RetainHandling, topic};

use crate::config::Limits;
use crate::message::Message;
use crate::routing::Wanted;
use crate::routing::delivery::{Batch, How, Identifiers};
use crate::routing::retained::Retained;
use crate::routing::subscribers::{ClientIndex, Subscribers, Subscription};
use crate::session::key::ClientKey;
use crate::trie::Trie;

/// Whom messages are for.
pub(crate) struct Router {
    subscribers: Trie<Subscribers>,
    pub(crate) retained: Retained,
    clients: Vec<Client>,
    free: Vec<ClientIndex>,
    indices: HashMap<ClientKey, ClientIndex, foldhash::fast::RandomState>,
    /// Messages routed so far; each is its own mark in [`Client::last`].
    routed: u64,
    /// Whom the message at hand is for.
    found: Vec<(ClientIndex, Subscription)>,
    alone: Vec<(ClientIndex, Subscription)>,
}

struct Client {
    key: ClientKey,
    online: bool,
    /// The last message that was for it, and where that stands in its partition's batch: so that a
    /// message is delivered once however many subscriptions want it.
    last: Cell<(u64, usize)>,
}

impl Router {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            subscribers: Trie::default(),
            retained: Retained::new(limits.retained, limits.retained_bytes),
            clients: Vec::new(),
            free: Vec::new(),
            indices: HashMap::default(),
            routed: 0,
            found: Vec::new(),
            alone: Vec::new(),
        }
    }

    /// Adds `message` to the batches of those whom it is for: by the partitions' numbers.
    pub(crate) fn publish(&mut self, message: &Arc<Message>, batches: &mut [Batch]) -> Reason {
        if message.retain
            && let Err(refused) = self.retained.keep(message)
        {
            return refused;
        }
        let Self { subscribers, clients, found, alone, routed, .. } = self;
        *routed += 1;
        subscribers.matching(&message.topic, |here| {
            found.extend(here.each.iter().map(|(client, own)| (*client, *own)));
            for group in &here.groups {
                let is_online = |client: ClientIndex| clients[client as usize].online;
                alone.extend(group.choose(group.turn(), is_online));
            }
        });
        if found.is_empty() && alone.is_empty() {
            return Reason::NO_MATCHING_SUBSCRIBERS;
        }
        let mut count = 0;
        for (client, own) in found.drain(..) {
            let client = &clients[client as usize];
            if own.options.no_local && message.from == Some(client.key) {
                continue;
            }
            count += 1;
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
            batch.add(client.key, message, how(own, message));
        }
        // A group's message is its member's besides what that gets for itself.
        for (client, own) in alone.drain(..) {
            count += 1;
            let client = &clients[client as usize];
            batches[usize::from(client.key.partition)].add(client.key, message, how(own, message));
        }
        if count == 0 { Reason::NO_MATCHING_SUBSCRIBERS } else { Reason::SUCCESS }
    }

    /// Files subscriptions, and adds the retained messages that they want to `batch`.
    pub(crate) fn subscribe(
        &mut self,
        client: ClientKey,
        wanted: &[Wanted],
        now: Duration,
        batch: &mut Batch,
    ) {
        let index = self.index(client);
        for wanted in wanted {
            let Some(path) = topic::shared(&wanted.filter) else { continue };
            let own = Subscription { options: wanted.options, identifier: wanted.identifier };
            let here = self.subscribers.entry(path.filter, Subscribers::default);
            let existed = here.add(path.group, index, own);
            let send = match wanted.options.retain_handling {
                RetainHandling::Send => true,
                RetainHandling::SendIfNew => !existed,
                RetainHandling::DoNotSend => false,
            };
            if send && path.group.is_none() {
                self.retained.below(path.filter, now, |message| {
                    let how = How { retain: true, ..how(own, message) };
                    batch.add(client, message, how);
                });
            }
        }
    }

    /// Takes subscriptions away.
    pub(crate) fn unsubscribe(&mut self, client: ClientKey, filters: &[Box<str>]) {
        let Some(&index) = self.indices.get(&client) else { return };
        for filter in filters {
            let Some(path) = topic::shared(filter) else { continue };
            let Some(here) = self.subscribers.get_mut(path.filter) else { continue };
            here.remove(path.group, index);
            if here.is_empty() {
                self.subscribers.remove(path.filter);
            }
        }
    }

    /// Takes a client away whose filters these are.
    pub(crate) fn forget(&mut self, client: ClientKey, filters: &[Box<str>]) {
        self.unsubscribe(client, filters);
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

    fn index(&mut self, key: ClientKey) -> ClientIndex {
        *self.indices.entry(key).or_insert_with(|| {
            let client = Client { key, online: true, last: Cell::new((0, 0)) };
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

/// How one subscription wants a message.
fn how(own: Subscription, message: &Message) -> How {
    How {
        qos: own.options.qos.min(message.qos),
        retain: own.options.retain_as_published && message.retain,
        identifiers: Identifiers::of(own.identifier),
    }
}
