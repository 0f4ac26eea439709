//! This node, its connection to NATS, and the payloads that it sends.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::sleep;
use phalanx_nats::{Client, Message, Rejected};

use crate::cluster::ending::Ending;
use crate::cluster::peer_node::{Hello, PeerNode, VERSION};
use crate::context::Context;
use crate::lane::Sent;
use crate::limits::settings::SharedSettings;
use crate::peers::Peers;
use crate::session::operations::RETRY_DELAY;

/// This node of the cluster.
pub(super) struct Node {
    pub(super) context: Context,
    pub(super) settings: SharedSettings,
    pub(super) peers: Arc<Peers>,
    pub(super) client: Client,
    pub(super) name: Arc<str>,
    pub(super) start: String,
    pub(super) prefix: String,
    pub(super) others: RefCell<BTreeMap<Arc<str>, Rc<PeerNode>>>,
    pub(super) next_lane: Cell<u64>,
    /// The number of claim messages sent to all nodes.
    pub(super) claims: Cell<u64>,
    pub(super) ending: Rc<Ending>,
    /// By node: the identity of its session for this node, as last seen. It outlives [`PeerNode`].
    pub(super) sessions: RefCell<BTreeMap<Arc<str>, String>>,
    /// The nodes that do not have all retained messages yet.
    pub(super) unsynced: RefCell<BTreeSet<Arc<str>>>,
    /// By node without a lane: the time, on the runtime's clock, since which it may have missed claims and retained
    /// messages.
    pub(super) missed_since: RefCell<BTreeMap<Arc<str>, Duration>>,
    /// The journals that this node adopted, with the version of its filters after the adoption; and the journals that any
    /// node adopted.
    pub(super) own_adoptions: RefCell<BTreeMap<String, u64>>,
    pub(super) adopted_journals: RefCell<BTreeSet<String>>,
    /// The lost nodes whose messages are being handed over or relayed, and whether an operation continues the handovers
    /// that this node awaits.
    pub(super) active_handovers: RefCell<BTreeSet<String>>,
    pub(super) is_continuing_handovers: Cell<bool>,
    /// Whether an operation moves messages.
    pub(super) is_moving: Cell<bool>,
    /// A node counts as lost if nothing was heard from it for this time.
    pub(super) timeout: Duration,
}

/// The exclusive permit to move messages from one session to another. While an operation holds it, no other one ends the
/// receiving session.
pub(super) struct MovePermit<'n>(&'n Cell<bool>);

impl Drop for MovePermit<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Node {
    /// Waits until no other operation moves messages.
    pub(super) async fn acquire_move_permit(&self) -> MovePermit<'_> {
        while self.is_moving.replace(true) {
            sleep(RETRY_DELAY).await;
        }
        MovePermit(&self.is_moving)
    }

    /// Returns the full name of one of the cluster's subjects.
    pub(super) fn subject(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    /// Returns the subject below which this process receives the answers to numbered requests of a kind.
    pub(super) fn inbox(&self, kind: &str) -> String {
        self.subject(&format!("inbox.{}.{kind}", self.start))
    }

    pub(super) fn send_hello(&self) {
        let kept = self.context.kept.as_ref();
        let journal = kept.and_then(|kept| kept.own_journal()).map(|journal| journal.to_string());
        if kept.is_some() && journal.is_none() {
            return;
        }
        let limits = &self.settings.load().limits;
        let hello = Hello {
            version: VERSION,
            node: self.name.to_string(),
            start: self.start.clone(),
            journal,
            packet_size: limits.packet_size as u32,
            receive_maximum: limits.receive_maximum,
            claims: Some(self.claims.get()),
        };
        let payload = serde_json::to_vec(&hello).unwrap_or_default();
        // Not checked: a lost announcement is repeated at the next interval.
        let _ = self.client.publish(&self.subject("nodes"), None, None, &payload);
    }

    /// Sends a frame to another node.
    pub(super) fn send(&self, to: &str, payload: &[u8]) -> Sent {
        let subject = self.subject(&format!("to.{to}.{}", self.name));
        // If the node is not connected, NATS replies on this subject, which names the node as the sender.
        let reply = self.subject(&format!("to.{}.{to}", self.name));
        match self.client.publish(&subject, Some(&reply), None, payload) {
            Ok(()) => Sent::Yes,
            Err(Rejected::Full(_)) => Sent::Full,
            Err(reason @ Rejected::TooLarge(..)) => Sent::TooLarge(reason.to_string()),
            Err(reason) => Sent::Failed(reason.to_string()),
        }
    }

    /// The number of connections to NATS so far.
    pub(super) fn connections(&self) -> u64 {
        self.peers.status.messages.connections.count()
    }

    /// Allocates the number of a lane that this node opens.
    pub(super) fn next_lane(&self) -> u64 {
        let number = self.next_lane.get();
        self.next_lane.set(number.wrapping_add(1));
        number
    }
}

/// The number of the request that a message in an [inbox](Node::inbox) answers.
pub(super) fn answered_request(message: &Message<'_>) -> Option<u64> {
    message.subject.rsplit('.').next()?.parse().ok()
}
