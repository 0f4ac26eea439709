//! This node: its connection to NATS, the other nodes, and what arrives from them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::shutdown::{draining, is_draining};
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_nats::{Client, Message, Options, Rejected};
use phalanx_tls::Backoff;
use serde::{Deserialize, Serialize};

use crate::cluster::serving::{self, SESSION_EXPIRY};
use crate::cluster::takeover;
use crate::config::Cluster;
use crate::config::cluster::is_word;
use crate::context::Context;
use crate::lane::frame::{NodeFrame, Side};
use crate::lane::{Lane, Sent};
use crate::limits::settings::SharedSettings;
use crate::peers::Peers;

/// Version of the protocol between nodes.
const VERSION: u32 = 1;

/// Parts of the timeout after which a node tells that it is there, and tends its lanes.
pub(super) const HELLOS: u32 = 5;
const TICKS: u32 = 25;

/// Announcement of a node.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Hello {
    version: u32,
    node: String,
    /// Identifies the start of the node.
    start: String,
    /// The maximum packet size of its clients, in bytes, and messages of QoS 2 that it accepts at once.
    pub(super) packet_size: u32,
    pub(super) receive_maximum: u16,
}

/// This node of the cluster.
pub(super) struct Node {
    pub(super) context: Context,
    pub(super) settings: SharedSettings,
    pub(super) peers: Arc<Peers>,
    pub(super) client: Client,
    pub(super) name: Arc<str>,
    pub(super) start: String,
    prefix: String,
    others: RefCell<BTreeMap<Arc<str>, Rc<Other>>>,
    next_lane: Cell<u64>,
    /// The sessions of other nodes for this one, as last seen, by node. They outlive [`Other`].
    pub(super) sessions: RefCell<BTreeMap<Arc<str>, String>>,
    /// The nodes that have to get all retained messages, or are getting them.
    pub(super) unsynced: RefCell<BTreeSet<Arc<str>>>,
    /// Time without a message after which a node is lost.
    pub(super) timeout: Duration,
}

/// Another node.
pub(super) struct Other {
    pub(super) name: Arc<str>,
    pub(super) hello: RefCell<Hello>,
    heard: Cell<Duration>,
    /// The lane, from the request for it to its end.
    pub(super) lane: RefCell<Option<Rc<Lane>>>,
    /// Waits for the grant of that lane.
    granted: RefCell<Option<oneshot::LocalSender<Side>>>,
    /// An operation serves a lane, or opens one.
    is_busy: Cell<bool>,
    /// The begin of that operation, and when the next one may begin.
    begun: Cell<Duration>,
    next_try: Cell<Duration>,
    backoff: RefCell<Backoff>,
}

/// Serves the cluster until shutdown.
pub(crate) async fn serve_cluster(
    (context, settings): (Context, SharedSettings),
    (cluster, peers): (Cluster, Arc<Peers>),
) {
    let of_cluster = cluster.clone();
    let access = match context.bridges.blocking.call(move |()| of_cluster.access()).await {
        Ok(Ok(access)) => access,
        Ok(Err(why)) => return eprintln!("phalanx: cluster: {why}; correct it, and start again"),
        Err(error) => return eprintln!("phalanx: cluster: cannot start: {error}; start again"),
    };
    let of_status = peers.clone();
    let options = Options {
        servers: cluster.servers.iter().map(|own| own.0.clone()).collect(),
        name: format!("phalanx {}", access.node),
        credentials: access.credentials,
        connector: access.connector,
        connect_timeout: cluster.timeout,
        // A server that answers neither of two pings is lost.
        ping_interval: cluster.timeout / 3,
        metrics: peers.status.messages.clone(),
        on_state: Rc::new(move |state| {
            let result = state.map(ToString::to_string);
            let line = match &result {
                Ok(server) => format!("connected to {server}"),
                Err(why) => format!("NATS is not connected: {why}; trying again"),
            };
            if of_status.status.nats_changed(result) && !is_draining() {
                eprintln!("phalanx: cluster: {line}");
            }
        }),
        on_error: Rc::new(|what| eprintln!("phalanx: cluster: NATS reports: {what}")),
        ..Options::default()
    };
    let node = Rc::new(Node {
        client: Client::new(options, context.bridges.blocking),
        name: access.node,
        start: context.bridges.broker_id.to_string(),
        prefix: format!("phalanx.{}", cluster.name),
        others: RefCell::default(),
        next_lane: Cell::new(first_lane(&context.bridges.broker_id)),
        sessions: RefCell::default(),
        unsynced: RefCell::default(),
        timeout: cluster.timeout,
        context,
        settings,
        peers,
    });
    node.clone().subscribe();
    let running = node.client.clone();
    let control = node.context.stages.control;
    if let Err(error) = control.dispatch(move |_| async move { running.run().await }) {
        return eprintln!("phalanx: cluster: cannot start: {error}; start again");
    }
    let claims = node.clone();
    let _ = control.dispatch(move |_| takeover::claim(claims));
    node.run().await;
}

/// The number of the first lane: lanes of an earlier start of this node had others.
fn first_lane(start: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    start.hash(&mut hasher);
    hasher.finish()
}

impl Node {
    /// A subject of the cluster.
    pub(super) fn subject(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    fn subscribe(self: Rc<Self>) {
        let Self { client, name, .. } = &*self;
        let own = self.clone();
        client.subscribe(&self.subject("nodes"), None, move |message| own.heard(&message));
        let own = self.clone();
        let filter = self.subject(&format!("to.{name}.*"));
        client.subscribe(&filter, None, move |message| own.received(&message));
        let own = self.clone();
        client.subscribe(&self.subject("claims"), None, move |message| {
            takeover::claimed(&own, message.payload);
        });
    }

    async fn run(self: Rc<Self>) {
        let (mut next_hello, mut was_connected) = (Duration::ZERO, false);
        loop {
            let is_connected = self.client.is_connected();
            if is_connected && (now() >= next_hello || !was_connected) {
                self.say_hello();
                next_hello = now() + self.timeout / HELLOS;
            }
            was_connected = is_connected;
            self.tend();
            if let Either::Right(()) = select(sleep(self.timeout / TICKS), draining()).await {
                break;
            }
        }
        for other in self.others.borrow().values() {
            if let Some(lane) = &*other.lane.borrow() {
                lane.close("the node shuts down");
            }
        }
        self.client.stop();
    }

    fn say_hello(&self) {
        let limits = &self.settings.load().limits;
        let hello = Hello {
            version: VERSION,
            node: self.name.to_string(),
            start: self.start.clone(),
            packet_size: limits.packet_size as u32,
            receive_maximum: limits.receive_maximum,
        };
        let payload = serde_json::to_vec(&hello).unwrap_or_default();
        // A lost one is repeated.
        let _ = self.client.publish(&self.subject("nodes"), None, None, &payload);
    }

    /// Another node is there.
    fn heard(&self, message: &Message<'_>) {
        let Ok(hello) = serde_json::from_slice::<Hello>(message.payload) else { return };
        if hello.node.is_empty() || !is_word(&hello.node) {
            return;
        }
        if hello.node == *self.name {
            if hello.start != self.start {
                let status = self.peers.status.node(&self.name);
                let why = "another node has the same name; set a node-name for each".to_owned();
                if status.changed(Err(why.clone()), now()) {
                    eprintln!("phalanx: cluster: {why}");
                }
            }
            return;
        }
        if hello.version != VERSION {
            let status = self.peers.status.node(&hello.node.as_str().into());
            let why = format!("the node has another version ({})", hello.version);
            status.changed(Err(why), now());
            return;
        }
        let known = self.others.borrow().get(hello.node.as_str()).cloned();
        match known {
            Some(other) => {
                other.heard.set(now());
                let before = other.hello.replace(hello);
                if before.start != other.hello.borrow().start {
                    other.close("the node started again");
                    // It does not know this node.
                    self.say_hello();
                }
            }
            None => {
                let other = Rc::new(Other::new(hello, self.timeout));
                self.others.borrow_mut().insert(other.name.clone(), other);
                // It may not know this node either.
                self.say_hello();
            }
        }
    }

    /// Another node sent a frame to this one.
    fn received(self: &Rc<Self>, message: &Message<'_>) {
        let from = message.subject.rsplit('.').next().unwrap_or_default();
        let Some(frame) = NodeFrame::decode(message.payload) else { return };
        let Some(other) = self.others.borrow().get(from).cloned() else { return };
        let lane = other.lane.borrow().clone();
        let lane = |id: u64| lane.clone().filter(|lane| lane.id() == id);
        match frame {
            NodeFrame::Data(data) => match lane(data.lane) {
                Some(lane) => lane.receive(data),
                None => {
                    self.refuse(&other, data.lane, "the lane does not exist");
                }
            },
            NodeFrame::Close { lane: id, why } => {
                if let Some(lane) = lane(id) {
                    lane.closed(&format!("closed by the node: {why}"));
                    other.granted.take();
                }
            }
            NodeFrame::Accept(side) => {
                if lane(side.lane).is_some()
                    && let Some(granted) = other.granted.take()
                {
                    granted.send(side);
                }
            }
            // Repeated.
            NodeFrame::Open(side) if lane(side.lane).is_some() => (),
            NodeFrame::Open(side) => {
                let is_current = side.to == self.start && side.from == other.hello.borrow().start;
                // The other node has closed an earlier one.
                other.close("the node opens another lane");
                if !is_current || is_draining() || !other.begins() {
                    self.refuse(&other, side.lane, "not now");
                    return;
                }
                let (own, control) = (self.clone(), self.context.stages.control);
                let (of, id) = (other.clone(), side.lane);
                let served = control.dispatch(move |_| async move {
                    serving::accept(&own, &of, side).await;
                    of.is_free();
                });
                if served.is_err() {
                    other.is_free();
                    self.refuse(&other, id, "the node is busy");
                }
            }
        }
    }

    fn refuse(&self, other: &Other, lane: u64, why: &str) {
        let mut payload = Vec::new();
        NodeFrame::Close { lane, why }.encode(&mut payload);
        self.send(&other.name, &payload);
    }

    /// Sends a frame to another node.
    pub(super) fn send(&self, to: &str, payload: &[u8]) -> Sent {
        let subject = self.subject(&format!("to.{to}.{}", self.name));
        match self.client.publish(&subject, None, None, payload) {
            Ok(()) => Sent::Yes,
            Err(Rejected::Full(_)) => Sent::Full,
            Err(why) => Sent::Failed(why.to_string()),
        }
    }

    /// Closes the lanes of nodes that are gone, and opens missing ones.
    fn tend(self: &Rc<Self>) {
        let others: Vec<_> = self.others.borrow().values().cloned().collect();
        let mut connected = 0;
        for other in others {
            let lane = other.lane.borrow().clone();
            if now().saturating_sub(other.heard.get()) > self.timeout {
                other.close("the node is not heard");
                if !other.is_busy.get() {
                    // Its session stays, and its lane begins when it is heard again.
                    self.others.borrow_mut().remove(&other.name);
                }
                continue;
            }
            if let Some(lane) = lane {
                lane.tick();
                connected += i64::from(!lane.is_closed() && other.granted.borrow().is_none());
            }
            let is_due = self.name < other.name && now() >= other.next_try.get();
            if is_due && !is_draining() && self.client.is_connected() && other.begins() {
                let (own, of, control) = (self.clone(), other.clone(), self.context.stages.control);
                let opened = control.dispatch(move |_| async move {
                    serving::open(&own, &of).await;
                    of.is_free();
                });
                if opened.is_err() {
                    other.is_free();
                }
            }
        }
        self.peers.status.nodes.set(connected);
        self.forget();
    }

    /// Forgets the nodes whose sessions have expired.
    fn forget(&self) {
        let expiry = Duration::from_secs(SESSION_EXPIRY.into());
        let is_known = |name: &str| name == &*self.name || self.others.borrow().contains_key(name);
        for name in self.peers.status.forget(now(), expiry, is_known) {
            self.sessions.borrow_mut().remove(&name);
            self.unsynced.borrow_mut().remove(&name);
        }
    }

    /// A number for a lane that this node opens.
    pub(super) fn next_lane(&self) -> u64 {
        let number = self.next_lane.get();
        self.next_lane.set(number.wrapping_add(1));
        number
    }
}

impl Other {
    fn new(hello: Hello, timeout: Duration) -> Self {
        Self {
            name: hello.node.as_str().into(),
            backoff: RefCell::new(Backoff::new(timeout / TICKS, timeout, hello.node.clone())),
            hello: RefCell::new(hello),
            heard: Cell::new(now()),
            lane: RefCell::default(),
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

    /// Completes when the node grants the lane; with an error if it is refused.
    pub(super) fn granted(&self) -> oneshot::LocalReceiver<Side> {
        let (sender, receiver) = oneshot::local();
        self.granted.replace(Some(sender));
        receiver
    }

    /// The lane is granted, or given up.
    pub(super) fn is_decided(&self) {
        self.granted.take();
    }

    fn close(&self, why: &str) {
        let lane = self.lane.borrow().clone();
        if let Some(lane) = lane {
            lane.close(why);
        }
        self.granted.take();
    }

    /// An operation begins to open or serve a lane. Returns false if there is one.
    fn begins(&self) -> bool {
        let is_free = !self.is_busy.replace(true);
        if is_free {
            self.begun.set(now());
        }
        is_free
    }

    /// No operation serves a lane. The next one begins later, if lanes end early again and again.
    fn is_free(&self) {
        self.lane.replace(None);
        self.is_busy.set(false);
        let mut backoff = self.backoff.borrow_mut();
        backoff.lasted(now().saturating_sub(self.begun.get()));
        self.next_try.set(now() + backoff.next(now()));
    }
}
