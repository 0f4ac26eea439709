//! The subscriptions of a session: added up to the limits, removed, and restored.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZero;

use phalanx_mqtt::Reason;
use phalanx_store::{Record, SessionId};

use crate::access::NODE_CLIENTS;
use crate::content::size::size;
use crate::counters::Counters;
use crate::durable::Lsn;
use crate::events::drops::DropReason;
use crate::model::client_key::ClientKey;
use crate::model::session::Session;
use crate::model::subscriptions::group::is_shared;
use crate::model::subscriptions::subscription_size::SubscriptionSize;
use crate::requests::{Subscriber, SubscriptionRequest};
use crate::session::partition::Sessions;

/// The reason code when the router or the disk does not accept a change of subscriptions in time. SUBACK and UNSUBACK
/// have no code for a busy server (MQTT-3.9.3-2, MQTT-3.11.3-2).
pub(in crate::session) const NOT_TAKEN: Reason = Reason::IMPLEMENTATION_SPECIFIC_ERROR;

/// The accepted subscriptions of a client.
pub(in crate::session) type Granted = (Subscriber, Vec<SubscriptionRequest>);

impl Sessions {
    /// Adds subscriptions up to the limits. Returns the reason codes, and the accepted subscriptions.
    pub(in crate::session) fn subscribe(
        &mut self,
        key: ClientKey,
        connection_id: u64,
        requests: Vec<Result<SubscriptionRequest, Reason>>,
    ) -> (Vec<Reason>, Option<Granted>) {
        self.limits.refresh();
        let (most, most_bytes) = (self.limits.subscriptions, self.limits.subscription_bytes as u64);
        let counters = self.counters.clone();
        let mut granted: Vec<SubscriptionRequest> = Vec::with_capacity(requests.len());
        let is_full = self.wal.is_full();
        if self.must_wait_for_disk(key) {
            self.refused_subscriptions(key, requests.iter().flatten().count());
            let refused = |result: Result<_, Reason>| result.err().unwrap_or(NOT_TAKEN);
            return (requests.into_iter().map(refused).collect(), None);
        }
        let mut records = std::mem::take(&mut self.records);
        let Some(session) = self.get(key).filter(|session| session.is_on(connection_id)) else {
            self.records = records;
            return (vec![Reason::UNSPECIFIED_ERROR; requests.len()], None);
        };
        let durable_id = session.durable_id();
        // The limits do not apply to a node. It has the subscriptions of all its clients, and would miss messages without
        // one of them.
        let is_node = session.client_id.starts_with(NODE_CLIENTS);
        let (mut places, mut refused) = (HashMap::new(), 0);
        let mut file = |request: Result<SubscriptionRequest, Reason>| {
            let request = match request {
                Ok(request) => request,
                Err(refused) => return refused,
            };
            if !session.keys.contains_key(&request.key) {
                // An existing subscription may be repeated, which clients do after reconnecting: it adds nothing.
                if is_full && durable_id != 0 {
                    refused += 1;
                    return Reason::QUOTA_EXCEEDED;
                }
                let size = size(&request.key, request.content.as_ref());
                let bytes = counters.subscription_bytes.get().max(0) as u64 + size.bytes() as u64;
                if !is_node && (session.keys.len() >= most || bytes > most_bytes) {
                    return Reason::QUOTA_EXCEEDED;
                }
                add_key(session, &counters, request.key.clone(), size);
            }
            if durable_id != 0 {
                records.push(&Record::Subscribe {
                    session: SessionId(durable_id),
                    filter: &request.key,
                    options: request.options.to_byte(),
                    identifier: request.identifier.map_or(0, NonZero::get),
                });
            }
            let reason = Reason(request.options.qos as u8);
            // If a packet has several requests with the same key, the last one counts.
            match places.entry(request.key.clone()) {
                Entry::Occupied(place) => granted[*place.get()] = request,
                Entry::Vacant(place) => {
                    place.insert(granted.len());
                    granted.push(request);
                }
            }
            reason
        };
        let reasons = requests.into_iter().map(&mut file).collect();
        session.routed |= !granted.is_empty();
        let (identity, adoptions) = (session.identity(), session.adoptions.clone());
        let client = Subscriber { key, durable_id, identity, adoptions, has_messages: false };
        let granted = (!granted.is_empty()).then_some((client, granted));
        self.records = records;
        self.append();
        self.refused_subscriptions(key, refused);
        (reasons, granted)
    }

    /// The client of a session that the router is to know even without a subscription; `None` if the session has another
    /// connection or has ended.
    pub(in crate::session) fn subscriber(
        &mut self,
        key: ClientKey,
        connection_id: u64,
    ) -> Option<Subscriber> {
        let session = self.get(key).filter(|session| session.is_on(connection_id))?;
        // At its end, the router forgets it.
        session.routed = true;
        let (durable_id, adoptions) = (session.durable_id(), session.adoptions.clone());
        let identity = session.identity();
        Some(Subscriber { key, durable_id, identity, adoptions, has_messages: false })
    }

    /// Sets whether a session counts as online for its shared subscriptions.
    pub(in crate::session) fn set_online(&mut self, key: ClientKey, is_online: bool) {
        let Self { slots, counters, .. } = self;
        let slot = slots.get_mut(key.slot as usize);
        let Some(session) = slot.and_then(|slot| slot.of(key)) else { return };
        if std::mem::replace(&mut session.is_online, is_online) != is_online && session.shared > 0 {
            counters.online(&session.client_id, session.keys.keys().map(|key| &**key), is_online);
        }
    }

    /// Whether a change of the client's subscriptions would have to wait for a stalled disk.
    pub(in crate::session) fn must_wait_for_disk(&mut self, key: ClientKey) -> bool {
        self.wal.is_behind() && self.get(key).is_some_and(|session| session.durable_id() != 0)
    }

    /// Counts rejected subscriptions of a client.
    pub(in crate::session) fn refused_subscriptions(&mut self, key: ClientKey, count: usize) {
        let (disk_full, store_full) =
            (DropReason::SubscriptionDiskFull, DropReason::SubscriptionStoreFull);
        let (reason, drops) = (self.wal.reason(disk_full, store_full), self.counters.drops.clone());
        let session = self.get(key).map(|session| &*session);
        drops.add(reason, count, || session.map(Session::as_receiver).unwrap_or_default());
    }

    /// Removes subscriptions, in order, until the number of conditions removed at once is reached. Returns the sizes of
    /// those that existed. If connection `connection_id` is not attached, removes nothing and returns `None`.
    pub(in crate::session) fn unsubscribe(
        &mut self,
        key: ClientKey,
        connection_id: u64,
        keys: &[Box<str>],
    ) -> Option<Vec<Option<SubscriptionSize>>> {
        let counters = self.counters.clone();
        let session = self.get(key).filter(|session| session.is_on(connection_id))?;
        let (mut removed, mut work) = (Vec::with_capacity(keys.len()), 0);
        for key in keys {
            if work >= SubscriptionSize::MAX_AT_ONCE {
                break;
            }
            let size = session.keys.swap_remove(key);
            if let Some(size) = size {
                session.shared -= usize::from(is_shared(key));
                counters.online(&session.client_id, [&**key], false);
                counters.unsubscribed(&session.client_id, (key, size));
                work += size.work();
            }
            removed.push(size);
        }
        Some(removed)
    }

    /// Records the removal of the subscriptions that existed according to `removed`. Returns the LSN for which the client
    /// has to wait.
    pub(in crate::session) fn unsubscribed(
        &mut self,
        key: ClientKey,
        keys: &[Box<str>],
        removed: &[Option<SubscriptionSize>],
    ) -> Lsn {
        let mut records = std::mem::take(&mut self.records);
        let session = self.get(key).filter(|session| session.durable_id() != 0);
        let is_durable = session.is_some();
        if let Some(session) = session {
            let session_id = SessionId(session.number);
            let gone = keys.iter().zip(removed).filter(|(_, size)| size.is_some());
            // Skips subscriptions that were added again meanwhile.
            for (filter, _) in gone.filter(|(filter, _)| !session.keys.contains_key(*filter)) {
                records.push(&Record::Unsubscribe { session: session_id, filter });
            }
        }
        self.records = records;
        self.append_of(is_durable)
    }

    /// Restores subscriptions that were removed here but possibly not from the router.
    pub(in crate::session) fn restore_subscriptions(
        &mut self,
        key: ClientKey,
        keys: impl Iterator<Item = (Box<str>, SubscriptionSize)>,
    ) {
        let counters = self.counters.clone();
        let Some(session) = self.get(key) else { return };
        for (key, size) in keys {
            if !session.keys.contains_key(&key) {
                add_key(session, &counters, key, size);
            }
        }
    }
}

/// Adds a subscription with this key to the session.
fn add_key(session: &mut Session, counters: &Counters, key: Box<str>, size: SubscriptionSize) {
    session.shared += usize::from(is_shared(&key));
    counters.subscribed(&session.client_id, (&key, size));
    if session.is_online {
        counters.online(&session.client_id, [&*key], true);
    }
    session.keys.insert(key, size);
}
