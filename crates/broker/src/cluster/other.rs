//! Another node: its announcement, its lane, and when the next lane may begin.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::sync::oneshot;
use phalanx::time::now;
use phalanx_tls::Backoff;
use serde::{Deserialize, Serialize};

use crate::access::NODE_CLIENTS;
use crate::cluster::intervals::TICKS;
use crate::lane::Lane;
use crate::lane::frame::Side;
use crate::model::client_key::ClientKey;

/// Version of the protocol between nodes.
pub(super) const VERSION: u32 = 5;

/// Announcement of a node.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Hello {
    pub(super) version: u32,
    pub(super) node: String,
    /// Identifies the start of the node.
    pub(super) start: String,
    /// Its journal, if it keeps its sessions.
    pub(super) journal: Option<String>,
    /// The maximum packet size of its clients, in bytes, and QoS 2 messages that it accepts at once.
    pub(super) packet_size: u32,
    pub(super) receive_maximum: u16,
    /// The number of messages with claims that it has sent to all nodes. Unknown to earlier versions.
    #[serde(default)]
    pub(super) claims: Option<u64>,
}

/// Another node.
pub(super) struct Other {
    pub(super) name: Arc<str>,
    pub(super) hello: RefCell<Hello>,
    pub(super) heard: Cell<Duration>,
    /// The number of the last known message with claims.
    claims: Cell<Option<u64>>,
    /// The lane, from the request for it to its end.
    pub(super) lane: RefCell<Option<Rc<Lane>>>,
    /// The session that the lane serves.
    pub(super) session: Cell<Option<ClientKey>>,
    /// The time of the next question for messages of a lost node.
    pub(super) next_question: Cell<Duration>,
    /// The number of the connection to NATS that it uses.
    pub(super) connection: Cell<u64>,
    /// Waits for the grant of that lane.
    pub(super) granted: RefCell<Option<oneshot::LocalSender<Side>>>,
    /// An operation serves a lane, or opens one.
    pub(super) is_busy: Cell<bool>,
    /// The begin of that operation, and when the next one may begin.
    begun: Cell<Duration>,
    pub(super) next_try: Cell<Duration>,
    backoff: RefCell<Backoff>,
}

impl Hello {
    /// The client identifier of the session for the node. Sessions that are kept belong to a journal: when they are
    /// adopted, the node begins another one.
    pub(super) fn client(&self) -> Arc<str> {
        format!("{NODE_CLIENTS}{}", self.journal.as_ref().unwrap_or(&self.node)).into()
    }
}

impl Other {
    pub(super) fn new(hello: Hello, timeout: Duration) -> Self {
        Self {
            name: hello.node.as_str().into(),
            backoff: RefCell::new(Backoff::new(timeout / TICKS, timeout, hello.node.clone())),
            claims: Cell::new(hello.claims),
            hello: RefCell::new(hello),
            heard: Cell::new(now()),
            lane: RefCell::default(),
            session: Cell::new(None),
            next_question: Cell::default(),
            connection: Cell::new(0),
            granted: RefCell::default(),
            is_busy: Cell::new(false),
            begun: Cell::new(Duration::ZERO),
            next_try: Cell::new(Duration::ZERO),
        }
    }

    /// The start of the node that is known.
    pub(super) fn start(&self) -> String {
        self.hello.borrow().start.clone()
    }

    /// The node has sent messages with claims up to this number, the last of which `has_arrived` now. They come in the
    /// order in which they were sent, also among its announcements. If an earlier one is missing, closes the lane: the
    /// next one repeats the claims.
    pub(super) fn note_claims(&self, sent: u64, has_arrived: bool) {
        let known = self.claims.replace(Some(sent));
        if known.is_some_and(|known| sent > known + u64::from(has_arrived)) {
            self.close("NATS lost claims of the node");
        }
    }

    /// Claims may have been lost, and are repeated.
    pub(super) fn forget_claims(&self) {
        self.claims.set(None);
    }

    /// Completes when the node grants the lane; with an error if it is refused.
    pub(super) fn granted(&self) -> oneshot::LocalReceiver<Side> {
        let (sender, receiver) = oneshot::local();
        self.granted.replace(Some(sender));
        receiver
    }

    /// The lane is granted, or given up.
    pub(super) fn decide(&self) {
        self.granted.take();
    }

    pub(super) fn close(&self, why: &str) {
        let lane = self.lane.borrow().clone();
        if let Some(lane) = lane {
            lane.close(why);
        }
        self.granted.take();
    }

    /// An operation begins to open or serve a lane. Returns false if there is one.
    pub(super) fn begins(&self) -> bool {
        let is_free = !self.is_busy.replace(true);
        if is_free {
            self.begun.set(now());
        }
        is_free
    }

    /// No operation serves a lane. The next one begins later, if lanes end early again and again.
    pub(super) fn release(&self) {
        self.lane.replace(None);
        self.session.set(None);
        self.is_busy.set(false);
        let mut backoff = self.backoff.borrow_mut();
        backoff.lasted(now().saturating_sub(self.begun.get()));
        self.next_try.set(now() + backoff.next(now()));
    }
}
