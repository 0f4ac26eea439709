//! The load: publishers and subscribers with sessions that outlive their connections.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, Properties, Publish, QoS};

use super::ledger::{Kind, Ledger, Receiver, Series};
use super::nodes::{Cluster, Node};
use super::roaming::Route;
use super::wire::{Wire, id};

/// Time without progress after which a client of a running node is stuck.
pub(super) const STUCK: Duration = Duration::from_secs(30);

/// Wait for a packet, after which a client looks at other things.
const POLL: Duration = Duration::from_millis(10);

/// Messages that a publisher sends before they are accepted.
pub(super) const WINDOW: usize = 16;

/// The state shared by all clients.
pub(super) struct Shared {
    pub(super) cluster: Cluster,
    pub(super) ledger: Ledger,
    /// Interval between two messages of a publisher.
    pub(super) interval: Duration,
    /// The nodes that faults concern: the first ones.
    pub(super) disturbed_nodes: usize,
    /// Whether a fault of a node may have cost it its sessions.
    pub(super) may_lose: AtomicBool,
    /// Whether NATS has a copy of the sessions, so that clients find theirs at other nodes.
    pub(super) sessions_kept: bool,
    /// The seed of the courses of clients, if they change their node every few seconds.
    pub(super) roams: Option<u64>,
    /// Where the subscribers are, and the times until they found their sessions at another node.
    pub(super) node_of_subscriber: Mutex<BTreeMap<String, usize>>,
    pub(super) returns: Mutex<Vec<Duration>>,
    /// The times that clients which roam took to connect, unless they were refused first.
    pub(super) moves: Mutex<Vec<Duration>>,
    /// The last accepted number of each retained topic.
    pub(super) kept: Mutex<BTreeMap<String, u64>>,
    /// Subscribers that are subscribed.
    pub(super) subscribed: AtomicUsize,
    /// The publishers publish nothing new.
    pub(super) is_load_over: AtomicBool,
    /// The subscribers end.
    pub(super) is_complete: AtomicBool,
}

impl Shared {
    /// Connects a client with a kept session, again and again, perhaps to one node after the other. `None` once the run is
    /// complete.
    pub(super) fn connect(&self, at: &mut usize, client: &str, had_session: bool) -> Option<Wire> {
        let (mut attempt_start, first, start) = (Instant::now(), *at, Instant::now());
        while !self.is_complete.load(Ordering::Relaxed) {
            let node = &self.cluster.nodes[*at];
            match Wire::connect(node.address, client, true) {
                Ok(wire) => {
                    if had_session && !wire.is_present {
                        self.ledger.fault(Kind::Lost, &format!("the session of {client}"));
                    }
                    if *at != first && client.starts_with(SUBSCRIBER) {
                        lock(&self.returns).push(start.elapsed());
                    } else if had_session && *at == first && self.roams.is_some() {
                        lock(&self.moves).push(start.elapsed());
                    }
                    return Some(wire);
                }
                Err(error) => {
                    if is_late(node, attempt_start) {
                        let message = format!("{client} cannot connect: {error}");
                        self.ledger.fault(Kind::Stuck, &message);
                        attempt_start = Instant::now();
                    }
                    if self.sessions_kept {
                        *at = (*at + 1) % self.cluster.nodes.len();
                    }
                    thread::sleep(POLL);
                }
            }
        }
        None
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a node has been running without an answer for too long.
fn is_late(node: &Node, since: Instant) -> bool {
    node.process().running().is_some_and(|running| running.max(since).elapsed() > STUCK)
}

/// A message that is not completed.
struct InFlight {
    number: u64,
    /// With QoS 2, the broker has the message, and is to forget its identifier.
    is_released: bool,
    since: Instant,
}

/// A publisher of one QoS, which begins at one node.
pub(super) struct Publisher {
    pub(super) shared: Arc<Shared>,
    pub(super) node: usize,
    pub(super) qos: QoS,
    /// Messages of a topic replace each other, and are retained.
    pub(super) is_retained: bool,
}

/// The topic of a retained message.
pub(super) fn kept_topic(node: &str, number: u64) -> String {
    format!("kept/{node}/{}", number % KEPT_TOPICS)
}

/// The topics of each publisher of retained messages.
pub(super) const KEPT_TOPICS: u64 = 8;

impl Publisher {
    fn node(&self) -> &Node {
        &self.shared.cluster.nodes[self.node]
    }

    /// Publishes until the load is over and all messages are accepted.
    pub(super) fn run(self) {
        let kind = if self.is_retained { "retained" } else { "load" };
        let client = format!("publisher-{}-{kind}-{}", self.node().name, self.qos as u8);
        let (mut in_flight, mut number, mut had_session) = (VecDeque::new(), 0, false);
        let (mut at, mut route) = (self.node, Route::new(&self.shared, &client));
        while let Some(mut wire) = self.shared.connect(&mut at, &client, had_session) {
            had_session = true;
            // Retained messages of different nodes may arrive in another order than they were published.
            if !self.is_retained {
                route.arrive();
            }
            let published = self.publish((&mut wire, at), &route, (&mut in_flight, &mut number));
            at = route.next(at);
            match published {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    let message = format!("{client} has waited for {} messages", in_flight.len());
                    self.shared.ledger.fault(Kind::Stuck, &message);
                }
                Err(_) => (),
            }
        }
    }

    fn accepted(&self, number: u64) {
        let publisher = self.node().name.clone();
        if !self.is_retained {
            let series = Series { publisher, qos: self.qos as u8 };
            self.shared.ledger.accepted(&series, number);
        } else if let Ok(mut kept) = self.shared.kept.lock() {
            kept.insert(kept_topic(&publisher, number), number);
        }
    }

    /// Publishes on one connection, until the client is to leave the node.
    fn publish(
        &self,
        (wire, at): (&mut Wire, usize),
        route: &Route,
        (in_flight, number): (&mut VecDeque<InFlight>, &mut u64),
    ) -> io::Result<()> {
        let node = &self.shared.cluster.nodes[at];
        for message in in_flight.iter_mut() {
            message.since = Instant::now();
            match message.is_released {
                true => wire.send(&Packet::PubRel(Ack::success(id(message.number))))?,
                false => self.send(wire, message.number, true)?,
            }
        }
        let (mut next, window) = (Instant::now(), if self.is_retained { 1 } else { WINDOW });
        loop {
            let is_load_over = self.shared.is_load_over.load(Ordering::Relaxed);
            if route.is_due() && !is_load_over {
                return Err(ErrorKind::Interrupted.into());
            }
            if is_load_over && in_flight.is_empty() {
                return Ok(());
            }
            if !is_load_over && in_flight.len() < window && Instant::now() >= next {
                *number += 1;
                let message =
                    InFlight { number: *number, is_released: false, since: Instant::now() };
                in_flight.push_back(message);
                self.send(wire, *number, false)?;
                next = Instant::now() + self.shared.interval;
            }
            if in_flight.front().is_some_and(|message| is_late(node, message.since)) {
                return Err(ErrorKind::TimedOut.into());
            }
            let Some(received) = wire.next(POLL.min(self.shared.interval))? else { continue };
            let mut release = None;
            let ack = match received.packet()? {
                Packet::PubAck(ack) | Packet::PubComp(ack) => ack,
                Packet::PubRec(ack) => {
                    release = (!ack.reason.is_failure()).then_some(ack.id);
                    ack
                }
                other => return Err(io::Error::other(format!("unexpected {other:?}"))),
            };
            let at = in_flight.iter().position(|message| id(message.number) == ack.id);
            let Some(at) = at else { continue };
            let message = &mut in_flight[at];
            if !ack.reason.is_failure() {
                self.accepted(message.number);
            }
            match release {
                Some(id) => {
                    message.is_released = true;
                    wire.send(&Packet::PubRel(Ack::success(id)))?;
                }
                None => drop(in_flight.remove(at)),
            }
        }
    }

    fn send(&self, wire: &mut Wire, number: u64, duplicate: bool) -> io::Result<()> {
        let name = &self.node().name;
        let topic = match self.is_retained {
            true => kept_topic(name, number),
            false => format!("load/{name}/{}", self.qos as u8),
        };
        let delivery = match self.qos {
            QoS::ExactlyOnce => Delivery::ExactlyOnce(id(number)),
            _ => Delivery::AtLeastOnce(id(number)),
        };
        wire.send(&Packet::Publish(Publish {
            topic: &topic,
            payload: number.to_string().as_bytes(),
            delivery,
            retain: self.is_retained,
            duplicate,
            properties: Properties::NONE,
        }))
    }
}

/// The begin of subscribers' names.
const SUBSCRIBER: &str = "subscriber";

/// A subscriber of all messages of the load at one node, or a member of a group of them.
#[derive(Clone)]
pub(super) struct Subscriber {
    pub(super) shared: Arc<Shared>,
    /// The node at which it begins, and its number there.
    pub(super) node: usize,
    pub(super) number: usize,
    pub(super) group: Option<&'static str>,
}

impl Subscriber {
    pub(super) fn receiver(&self) -> Receiver {
        match self.group {
            Some(group) => Receiver { name: format!("group {group}"), is_group: true },
            None => {
                let node = &self.shared.cluster.nodes[self.node].name;
                Receiver { name: format!("subscriber {} at {node}", self.number), is_group: false }
            }
        }
    }

    /// Receives until the run is complete.
    pub(super) fn run(self) {
        let node = &self.shared.cluster.nodes[self.node];
        let kind = self.group.unwrap_or("all");
        let client = format!("{SUBSCRIBER}-{}-{}-{kind}", node.name, self.number);
        let (mut at, mut route) = (self.node, Route::new(&self.shared, &client));
        let mut received = HashSet::new();
        let mut had_session = false;
        while let Some(mut wire) = self.shared.connect(&mut at, &client, had_session) {
            had_session = true;
            lock(&self.shared.node_of_subscriber).insert(client.clone(), at);
            route.arrive();
            // Ends with the connection.
            let _ = self.receive(&mut wire, &route, &mut received);
            at = route.next(at);
        }
    }

    fn receive(
        &self,
        wire: &mut Wire,
        route: &Route,
        received: &mut HashSet<PacketId>,
    ) -> io::Result<()> {
        if !wire.is_present {
            // The identifiers are those of another session.
            received.clear();
            let filter = match self.group {
                Some(group) => format!("$share/{group}/load/#"),
                None => "load/#".to_owned(),
            };
            wire.subscribe(&filter, QoS::ExactlyOnce)?;
        }
        let receiver = self.receiver();
        while !self.shared.is_complete.load(Ordering::Relaxed) && !route.is_due() {
            let Some(packet) = wire.next(POLL)? else { continue };
            match packet.packet()? {
                Packet::SubAck(_) => {
                    self.shared.subscribed.fetch_add(1, Ordering::Relaxed);
                }
                Packet::Publish(message) => {
                    let id = message.delivery.id();
                    let is_new = message.delivery.qos() != QoS::ExactlyOnce
                        || id.is_none_or(|id| received.insert(id));
                    if is_new && let Some((series, number)) = parse(&message) {
                        self.shared.ledger.received(&receiver, &series, number);
                    }
                    match message.delivery {
                        Delivery::AtMostOnce => (),
                        Delivery::AtLeastOnce(id) => {
                            wire.send(&Packet::PubAck(Ack::success(id)))?
                        }
                        Delivery::ExactlyOnce(id) => {
                            wire.send(&Packet::PubRec(Ack::success(id)))?
                        }
                    }
                }
                Packet::PubRel(ack) => {
                    received.remove(&ack.id);
                    wire.send(&Packet::PubComp(Ack::success(ack.id)))?;
                }
                other => return Err(io::Error::other(format!("unexpected {other:?}"))),
            }
        }
        Ok(())
    }
}

/// The series and the number of a message of the load.
fn parse(message: &Publish<'_>) -> Option<(Series, u64)> {
    let mut levels = message.topic.split('/').skip(1);
    let publisher = levels.next()?.to_owned();
    let qos = levels.next()?.parse().ok()?;
    Some((Series { publisher, qos }, std::str::from_utf8(message.payload).ok()?.parse().ok()?))
}
