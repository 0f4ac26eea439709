//! Lists the sessions of a partition for the admin pages, and disconnects clients for an operator.

use std::sync::Arc;
use std::task::{Poll, Waker};

use phalanx_mqtt::{Reason, Version};
use serde::Serialize;

use crate::access::is_reserved;
use crate::model::client_key::ClientKey;
use crate::model::session::{Session, SessionLoad};
use crate::session::partition::Sessions;
use crate::session::state::effects::Effects;

/// Maximum number of sessions examined by one call.
const MAX_EXAMINED: usize = 20_000;

/// A client as shown to an operator.
#[derive(Debug, Serialize)]
pub(crate) struct ClientView {
    client: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    connected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    listener: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    /// Session expiry interval in seconds; `null` if the session never expires.
    expiry_seconds: Option<u32>,
    queued: usize,
    queued_bytes: usize,
    inflight: usize,
    subscriptions: usize,
    /// The subscriptions, if requested: topic filters with groups and conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    filters: Option<Vec<String>>,
}

/// The clients that a call selects.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientQuery {
    /// Text that the client identifier or the user name contains.
    pub(crate) text: String,
    pub(crate) connected_only: bool,
    pub(crate) most: usize,
}

/// The connections that an operator ends.
#[derive(Clone, Debug)]
pub(crate) enum Kick {
    Client(String),
    User(String),
    /// Connections from an address, except those of bridges and other nodes: an operator bans clients.
    Address(std::net::IpAddr),
    /// All connections except those of bridges and other nodes, with this reason.
    Clients(Reason),
}

impl Kick {
    fn selects(&self, session: &Session) -> bool {
        match self {
            Self::Client(client) => *session.client_id == **client,
            Self::User(user) => session.user.as_deref() == Some(user),
            Self::Clients(_) => !is_reserved(&session.client_id),
            Self::Address(address) => {
                let origin = session.attachment.as_ref().and_then(|attachment| attachment.origin);
                let from = origin.and_then(|origin| origin.address);
                from.is_some_and(|from| from.ip().to_canonical() == *address)
                    && !is_reserved(&session.client_id)
            }
        }
    }
}

impl ClientView {
    pub(in crate::session) fn of(session: &Session, with_filters: bool) -> Self {
        let SessionLoad { queued, queued_bytes, inflight } = session.held();
        let attachment = session.attachment.as_ref();
        let origin = attachment.and_then(|attachment| attachment.origin);
        let filters = || {
            let mut filters: Vec<_> = session.keys.keys().map(|key| key.to_string()).collect();
            filters.sort_unstable();
            filters
        };
        Self {
            client: session.client_id.to_string(),
            user: session.user.as_deref().map(str::to_owned),
            connected: attachment.is_some(),
            address: origin.and_then(|origin| origin.address).map(|address| address.to_string()),
            listener: origin.map(|origin| origin.listen.to_string()),
            version: attachment.map(|attachment| match attachment.version {
                Version::V3 => "3.1.1",
                Version::V5 => "5",
            }),
            expiry_seconds: Some(session.expiry).filter(|seconds| *seconds < u32::MAX),
            queued,
            queued_bytes,
            inflight,
            subscriptions: session.keys.len(),
            filters: with_filters.then(filters),
        }
    }
}

impl Sessions {
    /// Lists the clients from slot `from` on. Also returns the slot at which to continue, if any are left.
    pub(in crate::session) fn list(
        &self,
        from: usize,
        query: &ClientQuery,
    ) -> (Vec<ClientView>, Option<usize>) {
        let mut found = Vec::new();
        for (slot, session) in self.sessions_from(from) {
            if found.len() >= query.most || slot >= from + MAX_EXAMINED {
                return (found, Some(slot));
            }
            let contains = |text: &str| text.contains(&query.text);
            let is_named =
                contains(&session.client_id) || session.user.as_deref().is_some_and(contains);
            if is_named && (session.attachment.is_some() || !query.connected_only) {
                found.push(ClientView::of(session, false));
            }
        }
        (found, None)
    }

    /// Completes with the reason when the connection is to end.
    pub(in crate::session) fn poll_ended(
        &mut self,
        (key, connection_id): (ClientKey, u64),
        waiting: &Waker,
    ) -> Poll<Reason> {
        let session = self.get(key).and_then(|session| session.on(connection_id));
        let Some(attachment) = session else { return Poll::Ready(Reason::SESSION_TAKEN_OVER) };
        match attachment.ended {
            Some(reason) => Poll::Ready(reason),
            None => {
                attachment.waiting.register(waiting);
                Poll::Pending
            }
        }
    }

    /// Ends connections. Returns their number.
    pub(in crate::session) fn kick(&mut self, kick: &Kick) -> usize {
        let mut count = 0;
        for session in self.all_sessions().filter(|session| kick.selects(session)) {
            if let Some(attachment) = &mut session.attachment {
                attachment.ended = Some(match kick {
                    Kick::Clients(reason) => *reason,
                    _ => Reason::ADMINISTRATIVE_ACTION,
                });
                attachment.wake();
                count += 1;
            }
        }
        count
    }

    /// The identifiers of clients with this prefix.
    pub(in crate::session) fn clients_with(&mut self, prefix: &str) -> Vec<Arc<str>> {
        let all = self.all_sessions().filter(|session| session.client_id.starts_with(prefix));
        all.map(|session| session.client_id.clone()).collect()
    }

    /// The keys of a client's subscriptions.
    pub(in crate::session) fn subscription_keys(&mut self, client: &str) -> Vec<Box<str>> {
        let slot = self.names.get(client).copied();
        let session = slot.and_then(|slot| self.at(slot));
        session.map_or_else(Vec::new, |session| session.keys.keys().cloned().collect())
    }

    /// Ends the client's session if it is the one that the caller selects, whether connected or not. Returns whether
    /// there was one.
    pub(in crate::session) fn end_session(
        &mut self,
        client: &str,
        is_meant: impl FnOnce(&Session) -> bool,
        reason: Reason,
        effects: &mut Effects,
    ) -> bool {
        let Some(slot) = self.names.get(client).copied() else { return false };
        let Some(session) = self.at(slot).filter(|session| is_meant(session)) else { return false };
        if let Some(attachment) = &mut session.attachment {
            // Expiry 0: the session ends when its connection does.
            attachment.ended = Some(reason);
            attachment.wake();
            session.expiry = 0;
            return true;
        }
        let will = session.will.take().filter(|_| !session.moving.is_copy());
        self.remove(slot, will.map(|will| will.message), effects);
        self.append();
        true
    }
}
