//! The router: the routing table, with all subscriptions and retained messages.

mod clients;
mod cut;
mod hand_over;
mod members;
mod publish;
mod receivers;
mod send_retained;
#[cfg(test)]
mod tests;
mod waits;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::{RetainHandling, topic};

use crate::access::{Covered, Policy};
use crate::config::Limits;
use crate::content::index::ContentIndex;
use crate::content::path::{has_content, path};
use crate::durable::recovery::RecoveredRoutes;
use crate::durable::{Lsn, Wal};
use crate::events::drops::Drops;
use crate::model::client_key::ClientKey;
use crate::model::delivery::DeliveryBatch;
use crate::model::message::Message;
use crate::model::subscriptions::group::Joining;
use crate::model::subscriptions::group_id::group_id;
use crate::model::subscriptions::subscribers::{ClientIndex, Subscribers, Subscription};
use crate::model::subscriptions::trie::Trie;
use crate::peers::Peers;
use crate::requests::{PendingRetained, Subscriber, SubscriptionRequest};
use crate::routing::retained::Retained;
use crate::routing::router::clients::{Client, OnlineMembers, Relay};
use crate::routing::router::waits::Waits;
use crate::routing::router_wal::RouterWal;

/// The routing table.
pub(crate) struct Router {
    subscribers: Trie<Subscribers>,
    retained: Retained,
    /// The messages that the broker publishes below `$SYS`: retained, but not persistent.
    system: Retained,
    /// Maximum number of retained messages delivered per SUBSCRIBE.
    most: usize,
    content: ContentIndex,
    clients: Vec<Client>,
    free: Vec<ClientIndex>,
    /// For each shared subscription, the number of members online at this node.
    online: OnlineMembers,
    /// The other nodes of the cluster.
    nodes: Vec<ClientIndex>,
    /// Sessions with messages of lost nodes that their receivers do not have yet.
    relays: Vec<Relay>,
    indices: HashMap<ClientKey, ClientIndex, foldhash::fast::RandomState>,
    /// The number of messages routed so far; identifies a message in [`Client::last`].
    routed: u64,
    /// Receivers of the current messages, through ordinary and through shared subscriptions.
    found: Vec<(u32, ClientIndex, Subscription)>,
    alone: Vec<(u32, ClientIndex, Subscription)>,
    /// Runs of the current messages: the first message, whose receivers are in `found`, and the number of messages.
    runs: Vec<(usize, usize)>,
    wal: RouterWal,
    drops: Drops,
    /// The state of the cluster, if this broker is a node of one.
    peers: Option<Arc<Peers>>,
    waits: Waits,
    /// Persistent receivers of the current message: the session ID, its partition, and the index of the delivery.
    durable: Vec<(u64, u16, u32)>,
    /// Maximum number of events matched together, so that their deliveries fit the available permits. It starts low and
    /// adapts to the number of deliveries per event.
    events_at_once: usize,
}

/// Initial number of events matched together.
const INITIAL_EVENTS: usize = 64;

/// Capacity that the receiver buffers keep between cohorts.
const MAX_KEPT_RECEIVERS: usize = 1 << 16;

/// Number of minimal messages that fit a client's output buffer before any is queued.
const SENT_IMMEDIATELY: usize = 16 * 1024;

impl Router {
    /// A router with the recovered state. `policy` is applied to the recovered subscriptions.
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
            online: OnlineMembers::default(),
            nodes: Vec::new(),
            relays: Vec::new(),
            indices: HashMap::default(),
            routed: 0,
            found: Vec::new(),
            alone: Vec::new(),
            runs: Vec::new(),
            wal: RouterWal::new(wal, next_message, next_delivery),
            drops,
            peers,
            waits: Waits::default(),
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

    /// Sets the limit on messages queued for a client. A reload may change it.
    pub(crate) fn set_queued_messages(&mut self, most: usize) {
        self.most = most.saturating_add(SENT_IMMEDIATELY);
    }

    /// Whether content filters have used up the cohort's time, so that the remaining messages wait for the next cohort.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.content.is_exhausted()
    }

    /// Performs one bounded step of adapting the content index, and shrinks the buffers. Called once per cohort, under
    /// the lock.
    pub(crate) fn tend(&mut self) {
        self.content.end_cohort();
        self.found.shrink_to(MAX_KEPT_RECEIVERS);
        self.alone.shrink_to(MAX_KEPT_RECEIVERS);
        self.runs.shrink_to(MAX_KEPT_RECEIVERS);
    }

    /// Appends the records of the cohort to the WAL.
    pub(crate) fn end_cohort(&mut self) -> Lsn {
        self.wal.end()
    }

    /// Like [`publish`](Self::publish), for messages of the broker itself.
    pub(crate) fn tell(
        &mut self,
        messages: &[Arc<Message>],
        batches: &mut [DeliveryBatch],
        (policy, now): (&Policy, Duration),
    ) {
        for message in messages {
            // `system` has no limit: these messages are few.
            let _ = self.system.keep(message, now);
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
        // Until the client has a shared subscription, nobody reports its presence.
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

    /// Adds a subscription. Returns its parsed key, and whether it replaced an existing one.
    fn file<'w>(
        &mut self,
        client: ClientIndex,
        request: &'w SubscriptionRequest,
        covered: Covered,
    ) -> Option<(topic::Shared<'w>, bool)> {
        let path = path(&request.key)?;
        let SubscriptionRequest { options, identifier, .. } = *request;
        let own = Subscription { options, identifier, covered };
        let is_node = self.clients[client as usize].is_node;
        let joining = |group| Joining { group, id: group_id(&request.key), is_node };
        let joining = path.group.map(joining);
        let here = self.subscribers.entry(path.filter, Subscribers::default);
        let existed = match &request.content {
            None => here.add(joining, client, own),
            Some(content) => {
                let numbered = here.number(content.json, || self.content.assign_number());
                let subscriber = (client, joining, &*request.key);
                let (existed, is_new) = self.content.add(subscriber, numbered.number, content, own);
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
                    let subscription = (index, path.group.is_some(), &**key);
                    if let Some(json) = self.content.remove(subscription) {
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
