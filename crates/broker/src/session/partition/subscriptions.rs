//! The subscriptions of a session: added up to the limits, removed, and restored.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZero;

use phalanx_mqtt::Reason;
use phalanx_store::{Record, SessionId};

use crate::access::NODE_CLIENTS;
use crate::counters::cost;
use crate::durable::Lsn;
use crate::events::drops::DropReason;
use crate::model::client_key::ClientKey;
use crate::model::session::Session;
use crate::requests::{Subscriber, SubscriptionRequest};
use crate::session::partition::Sessions;

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
        let (is_full, is_behind) = (self.wal.is_full(), self.wal.is_behind());
        let mut records = std::mem::take(&mut self.records);
        let Some(session) = self.get(key).filter(|session| session.is_on(connection_id)) else {
            return (vec![Reason::UNSPECIFIED_ERROR; requests.len()], None);
        };
        let durable_id = session.durable_id();
        if is_behind && durable_id != 0 {
            self.refused_subscriptions(key, requests.iter().flatten().count());
            return (vec![Reason::QUOTA_EXCEEDED; requests.len()], None);
        }
        // A node has the subscriptions of all its clients, and without one of them messages would be missing.
        let is_node = session.client_id.starts_with(NODE_CLIENTS);
        let (mut places, mut refused) = (HashMap::new(), 0);
        let mut file = |request: Result<SubscriptionRequest, Reason>| {
            let request = match request {
                Ok(request) => request,
                Err(refused) => return refused,
            };
            if !session.keys.contains(&request.key) {
                // Repeating an existing subscription adds nothing, and clients do so after reconnecting.
                if is_full && durable_id != 0 {
                    refused += 1;
                    return Reason::QUOTA_EXCEEDED;
                }
                let bytes =
                    counters.subscription_bytes.get().max(0) as u64 + cost(&request.key) as u64;
                if !is_node && (session.keys.len() >= most || bytes > most_bytes) {
                    return Reason::QUOTA_EXCEEDED;
                }
                counters.subscribed(&session.client_id, &request.key);
                session.shared += usize::from(is_shared(&request.key));
                session.keys.insert(request.key.clone());
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
            // Of two requests with the same key in one packet the last counts.
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
        let client = Subscriber { key, durable_id, identity, adoptions };
        let granted = (!granted.is_empty()).then_some((client, granted));
        self.records = records;
        self.append();
        self.refused_subscriptions(key, refused);
        (reasons, granted)
    }

    /// Counts rejected subscriptions of a client.
    pub(in crate::session) fn refused_subscriptions(&mut self, key: ClientKey, count: usize) {
        let (disk_full, store_full) =
            (DropReason::SubscriptionDiskFull, DropReason::SubscriptionStoreFull);
        let (reason, drops) = (self.wal.reason(disk_full, store_full), self.counters.drops.clone());
        let session = self.get(key).map(|session| &*session);
        drops.add(reason, count, || session.map(Session::as_receiver).unwrap_or_default());
    }

    /// Removes subscriptions. Returns for each whether it existed; `None`, and none is removed, if connection
    /// `connection_id` is not attached.
    pub(in crate::session) fn unsubscribe(
        &mut self,
        key: ClientKey,
        connection_id: u64,
        keys: &[Box<str>],
    ) -> Option<Vec<Reason>> {
        let counters = self.counters.clone();
        let session = self.get(key).filter(|session| session.is_on(connection_id))?;
        let mut remove = |key: &str| match session.keys.remove(key) {
            true => {
                session.shared -= usize::from(is_shared(key));
                counters.unsubscribed(&session.client_id, key);
                Reason::SUCCESS
            }
            false => Reason::NO_SUBSCRIPTION_EXISTED,
        };
        Some(keys.iter().map(|key| remove(key)).collect())
    }

    /// Records the removal of subscriptions that existed according to `reasons`.
    pub(in crate::session) fn unsubscribed(
        &mut self,
        key: ClientKey,
        keys: &[Box<str>],
        reasons: &[Reason],
    ) -> Lsn {
        let mut records = std::mem::take(&mut self.records);
        if let Some(session) = self.get(key).filter(|session| session.durable_id() != 0) {
            let session_id = SessionId(session.number);
            let gone = keys.iter().zip(reasons).filter(|(_, reason)| **reason == Reason::SUCCESS);
            // A subscription may have been added again.
            for (filter, _) in gone.filter(|(filter, _)| !session.keys.contains(*filter)) {
                records.push(&Record::Unsubscribe { session: session_id, filter });
            }
        }
        self.records = records;
        self.append()
    }

    /// Restores subscriptions that were removed here, but possibly not in the router.
    pub(in crate::session) fn restore_subscriptions(
        &mut self,
        key: ClientKey,
        keys: impl Iterator<Item = Box<str>>,
    ) {
        let counters = self.counters.clone();
        let Some(session) = self.get(key) else { return };
        for key in keys {
            if !session.keys.contains(&key) {
                session.shared += usize::from(is_shared(&key));
                counters.subscribed(&session.client_id, &key);
                session.keys.insert(key);
            }
        }
    }
}

fn is_shared(key: &str) -> bool {
    key.starts_with("$share/")
}
