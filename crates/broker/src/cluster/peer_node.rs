//! Another node: its announcement, its lane, and the backoff between lanes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::sync::oneshot;
use phalanx::time::now;
use phalanx_tls::Backoff;
use serde::{Deserialize, Serialize};

use crate::access::NODE_CLIENTS;
use crate::cluster::intervals::TICKS_PER_TIMEOUT;
use crate::lane::Lane;
use crate::lane::frame::Side;
use crate::model::client_key::ClientKey;

/// Version of the protocol between nodes.
pub(super) const VERSION: u32 = 6;

/// Announcement of a node.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Hello {
    pub(super) version: u32,
    pub(super) node: String,
    /// Identifies the process: each start of the node has another value.
    pub(super) start: String,
    /// The node's journal, if its sessions are kept.
    pub(super) journal: Option<String>,
    /// The maximum packet size in bytes, and the receive maximum.
    pub(super) packet_size: u32,
    pub(super) receive_maximum: u16,
    /// The number of claim messages that it has sent to all nodes. Absent from earlier versions.
    #[serde(default)]
    pub(super) claims: Option<u64>,
}

/// Another node.
pub(super) struct PeerNode {
    pub(super) name: Arc<str>,
    pub(super) hello: RefCell<Hello>,
    pub(super) last_hello: Cell<Duration>,
    /// The number of the last known claim message.
    claims: Cell<Option<u64>>,
    /// The lane, from the request for it to its end.
    pub(super) lane: RefCell<Option<Rc<Lane>>>,
    /// The session that the lane serves.
    pub(super) session: Cell<Option<ClientKey>>,
    /// The earliest time of the next question about a lost node's messages.
    pub(super) next_request: Cell<Duration>,
    /// The number of the NATS connection that the lane uses.
    pub(super) connection: Cell<u64>,
    /// Completes the wait for the lane's grant.
    pub(super) granted: RefCell<Option<oneshot::LocalSender<Side>>>,
    /// Whether an operation opens or serves a lane.
    pub(super) is_busy: Cell<bool>,
    /// When that operation began, and when the next one may begin.
    lane_started: Cell<Duration>,
    pub(super) next_try: Cell<Duration>,
    backoff: RefCell<Backoff>,
}

impl Hello {
    /// The client identifier of this node's session for the node. It names the node's journal, if there is one, because
    /// the node begins another journal when its sessions are adopted.
    pub(super) fn client(&self) -> Arc<str> {
        format!("{NODE_CLIENTS}{}", self.journal()).into()
    }

    /// The node's journal, or its name if its sessions are not kept.
    fn journal(&self) -> &str {
        self.journal.as_ref().unwrap_or(&self.node)
    }
}

impl PeerNode {
    pub(super) fn new(hello: Hello, timeout: Duration) -> Self {
        Self {
            name: hello.node.as_str().into(),
            backoff: RefCell::new(Backoff::new(
                timeout / TICKS_PER_TIMEOUT,
                timeout,
                hello.node.clone(),
            )),
            claims: Cell::new(hello.claims),
            hello: RefCell::new(hello),
            last_hello: Cell::new(now()),
            lane: RefCell::default(),
            session: Cell::new(None),
            next_request: Cell::default(),
            connection: Cell::new(0),
            granted: RefCell::default(),
            is_busy: Cell::new(false),
            lane_started: Cell::new(Duration::ZERO),
            next_try: Cell::new(Duration::ZERO),
        }
    }

    /// The last known start of the node.
    pub(super) fn start(&self) -> String {
        self.hello.borrow().start.clone()
    }

    /// The node's journal, or its name if its sessions are not kept.
    pub(super) fn journal(&self) -> String {
        self.hello.borrow().journal().to_owned()
    }

    /// Records that the node has sent claim messages up to this number, the last of which `has_arrived` now. NATS
    /// preserves the order of claims and announcements, so a gap means that claims were lost. The lane is then closed,
    /// and the next lane repeats the claims.
    pub(super) fn record_claims(&self, sent: u64, has_arrived: bool) {
        let known = self.claims.replace(Some(sent));
        if known.is_some_and(|known| sent > known + u64::from(has_arrived)) {
            self.close("NATS lost claims of the node");
        }
    }

    /// Ignores a gap in the claims, because the next lane repeats them.
    pub(super) fn reset_claims(&self) {
        self.claims.set(None);
    }

    /// Completes when the node grants the lane, or with an error if it refuses.
    pub(super) fn granted(&self) -> oneshot::LocalReceiver<Side> {
        let (sender, receiver) = oneshot::local();
        self.granted.replace(Some(sender));
        receiver
    }

    pub(super) fn end_grant_wait(&self) {
        self.granted.take();
    }

    pub(super) fn close(&self, reason: &str) {
        let lane = self.lane.borrow().clone();
        if let Some(lane) = lane {
            lane.close(reason);
        }
        self.granted.take();
    }

    /// Begins an operation that opens or serves a lane. Returns false if another one runs.
    pub(super) fn try_begin(&self) -> bool {
        let is_free = !self.is_busy.replace(true);
        if is_free {
            self.lane_started.set(now());
        }
        is_free
    }

    /// Marks that the operation has ended. The delay before the next one grows if lanes repeatedly end early.
    pub(super) fn release(&self) {
        self.lane.replace(None);
        self.session.set(None);
        self.is_busy.set(false);
        let mut backoff = self.backoff.borrow_mut();
        backoff.record_connection(now().saturating_sub(self.lane_started.get()));
        self.next_try.set(now() + backoff.next_delay(now()));
    }
}
