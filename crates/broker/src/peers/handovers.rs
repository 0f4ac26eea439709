//! The handovers that this node awaits. After an adoption, each other node hands over the messages that it has queued for
//! the lost node; `cluster/adoption/handover.rs` describes the protocol.
//!
//! A handover is stored as a session `$adopted/JOURNAL/NODE`, so that it survives a restart and is adopted with this
//! node's other sessions. The session has the packet identifiers of the QoS 2 messages that the lost node had received
//! from that node. The messages that this node itself has queued are also a handover, from a node with an empty name.
//! Only the router changes this table, so each change has a defined place in the order of messages.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::sleep;
use phalanx::time::now;

use crate::access::ADOPTED_CLIENTS;
use crate::lock::lock;
use crate::model::handed::adoption_id;

/// How often [`Handovers::wait_until_settled`] polls within its limit.
const POLLS_PER_LIMIT: u32 = 25;

/// The awaited handovers.
#[derive(Default)]
pub(crate) struct Handovers {
    state: Mutex<State>,
    /// The number of awaited handovers.
    count: AtomicUsize,
    /// The number of ended handovers whose sessions remain to be ended.
    done: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// By the session's ID in the journal, which is the order of the adoptions.
    awaited: BTreeMap<u64, Awaited>,
    /// The client identifiers of the sessions of ended handovers.
    done: Vec<Arc<str>>,
}

/// An awaited handover.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    /// The client identifier of the handover's session.
    pub(crate) client: Arc<str>,
    adoption: u32,
    pub(crate) journal: Box<str>,
    /// The journal of the node that hands over; empty for this node.
    pub(crate) node: Box<str>,
    /// When the node could first be asked over its current lane; `None` without a lane.
    reachable_since: Option<Duration>,
    /// Whether the messages that the lost node had queued for that node were relayed to it.
    pub(crate) is_relayed: bool,
}

/// The client identifier of a handover's session.
pub(crate) fn handover_client(journal: &str, node: &str) -> Arc<str> {
    format!("{ADOPTED_CLIENTS}{journal}/{node}").into()
}

/// The adopted journal and the node, from the client identifier of a handover's session.
pub(crate) fn handover_of(client: &str) -> Option<(&str, &str)> {
    client.strip_prefix(ADOPTED_CLIENTS)?.split_once('/')
}

impl Handovers {
    /// Adds the handover whose session has this client identifier and ID, and possibly messages to be relayed.
    pub(crate) fn begin(&self, client: &Arc<str>, session: u64, has_messages: bool) {
        let Some((journal, node)) = handover_of(client) else { return };
        let awaited = Awaited {
            client: client.clone(),
            adoption: adoption_id(journal),
            journal: journal.into(),
            node: node.into(),
            reachable_since: None,
            is_relayed: !has_messages,
        };
        self.change(|state| _ = state.awaited.insert(session, awaited));
    }

    /// Removes a handover whose session has ended.
    pub(crate) fn end(&self, client: &str) {
        if handover_of(client).is_none() {
            return;
        }
        self.change(|state| state.awaited.retain(|_, awaited| *awaited.client != *client));
    }

    /// Ends a handover when its mark has arrived: the node's messages then reach the adopted sessions as usual. Returns
    /// the ID of the session, which the caller has to end; `None` if the handover is not awaited.
    pub(crate) fn end_awaited(&self, adoption: u32, node: &str) -> Option<u64> {
        let mut session = None;
        self.change(|state| {
            let mut all = state.awaited.iter();
            let found =
                all.find(|(_, awaited)| awaited.adoption == adoption && *awaited.node == *node);
            session = found.map(|(session, _)| *session);
            let awaited = session.and_then(|session| state.awaited.remove(&session));
            state.done.extend(awaited.map(|awaited| awaited.client));
        });
        session
    }

    /// The oldest of a session's adoptions whose handover from this node is awaited. Until that handover ends, the
    /// session gets only messages that the node hands over.
    pub(crate) fn oldest_awaited(&self, adoptions: &[u32], node: &str) -> Option<u32> {
        if adoptions.is_empty() || self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let state = lock(&self.state);
        let is_awaited = |adoption: &u32| {
            state
                .awaited
                .values()
                .any(|awaited| awaited.adoption == *adoption && *awaited.node == *node)
        };
        adoptions.iter().copied().find(is_awaited)
    }

    /// Whether messages for a session with these adoptions are awaited.
    pub(crate) fn is_awaited(&self, adoptions: &[u32]) -> bool {
        let state = lock(&self.state);
        state.awaited.values().any(|awaited| adoptions.contains(&awaited.adoption))
    }

    /// Whether no handover is awaited, and no session remains to be ended.
    pub(crate) fn is_idle(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0 && self.done.load(Ordering::Acquire) == 0
    }

    /// The awaited handovers, in the order of the adoptions.
    pub(crate) fn awaited(&self) -> Vec<Awaited> {
        lock(&self.state).awaited.values().cloned().collect()
    }

    /// Takes the client identifiers of sessions that remain to be ended.
    pub(crate) fn take_done(&self) -> Vec<Arc<str>> {
        let mut done = Vec::new();
        self.change(|state| done = std::mem::take(&mut state.done));
        done
    }

    /// Records that the messages that the lost node had queued for the handover's node were relayed.
    pub(crate) fn mark_relayed(&self, client: &str) {
        self.change(|state| {
            if let Some(awaited) =
                state.awaited.values_mut().find(|awaited| *awaited.client == *client)
            {
                awaited.is_relayed = true;
            }
        });
    }

    /// Starts the time limit of [`wait_until_settled`](Self::wait_until_settled) when the adoption of a journal has
    /// ended: the nodes are asked next.
    pub(crate) fn note_adopted(&self, journal: &str) {
        self.change(|state| {
            let of_journal =
                state.awaited.values_mut().filter(|awaited| *awaited.journal == *journal);
            of_journal.for_each(|awaited| awaited.reachable_since = Some(now()));
        });
    }

    /// Records that the node of a handover can be asked.
    pub(crate) fn mark_reachable(&self, client: &str) {
        self.change(|state| {
            let found = state.awaited.values_mut().find(|awaited| *awaited.client == *client);
            found.map(|awaited| awaited.reachable_since.get_or_insert_with(now));
        });
    }

    /// Records that the lane to a node has ended.
    pub(crate) fn mark_unreachable(&self, node: &str) {
        self.change(|state| {
            let of_node = state.awaited.values_mut().filter(|awaited| *awaited.node == *node);
            of_node.for_each(|awaited| awaited.reachable_since = None);
        });
    }

    /// Waits until the nodes that can be asked have handed over, for at most `limit` since that was first possible. A new
    /// subscription of an adopted session gets their messages only then.
    pub(crate) async fn wait_until_settled(&self, limit: Duration) {
        let is_near =
            |awaited: &Awaited| awaited.reachable_since.is_some_and(|at| now() < at + limit);
        while self.count.load(Ordering::Acquire) > 0
            && lock(&self.state).awaited.values().any(is_near)
        {
            sleep(limit / POLLS_PER_LIMIT).await;
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        self.count.store(state.awaited.len(), Ordering::Release);
        self.done.store(state.done.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_awaited_adoption_is_due() {
        let (handovers, [a, b]) = (Handovers::default(), ["a.1", "b.2"].map(adoption_id));
        for (session, journal, node) in [(7, "b.2", "c.3"), (5, "a.1", "c.3"), (6, "a.1", "")] {
            handovers.begin(&handover_client(journal, node), session, false);
        }
        let chain = [a, b];
        let due = |node| handovers.oldest_awaited(&chain, node);
        assert_eq!([due("c.3"), due(""), due("d.4")], [Some(a), Some(a), None]);
        assert_eq!(handovers.oldest_awaited(&[], "c.3"), None);
        assert_eq!(handovers.end_awaited(a, "c.3"), Some(5));
        assert_eq!((due("c.3"), handovers.end_awaited(a, "c.3")), (Some(b), None));
        assert_eq!(handovers.take_done(), [handover_client("a.1", "c.3")]);
        handovers.end(&handover_client("b.2", "c.3"));
        assert_eq!((due("c.3"), handovers.end_awaited(a, "")), (None, Some(6)));
        assert!(!handovers.is_idle() && handovers.take_done().len() == 1 && handovers.is_idle());
    }
}
