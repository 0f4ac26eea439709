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
use super::roaming::Course;
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
    pub(super) disturbed: usize,
    /// Whether a fault of a node may have cost it its sessions.
    pub(super) may_lose: AtomicBool,
    /// Whether NATS has a copy of the sessions, so that clients find theirs at other nodes.
    pub(super) are_kept: bool,
    /// The seed of the courses of clients, if they change their node every few seconds.
    pub(super) roams: Option<u64>,
    /// Where the subscribers are, and the times until they found their sessions at another node.
    pub(super) places: Mutex<BTreeMap<String, usize>>,
    pub(super) returns: Mutex<Vec<Duration>>,
    /// The times that clients which roam took to connect, unless they were refused first.
    pub(super) moves: Mutex<Vec<Duration>>,
    /// The last accepted number of each retained topic.
    pub(super) kept: Mutex<BTreeMap<String, u64>>,
    /// Subscribers that are subscribed.
    pub(super) subscribed: AtomicUsize,
    /// The publishers publish nothing new.
    pub(super) is_over: AtomicBool,
    /// The subscribers end.
    pub(super) is_complete: AtomicBool,
}

impl Shared {
    /// Connects a client with a kept session, again and again, perhaps to one node after the other. `None` once the run is
    /// complete.
    pub(super) fn connect(&self, at: &mut usize, client: &str, was_there: bool) -> Option<Wire> {
        let (mut begun, first, since) = (Instant::now(), *at, Instant::now());
        while !self.is_complete.load(Ordering::Relaxed) {
            let node = &self.cluster.nodes[*at];
            match Wire::connect(node.address, client, true) {
                Ok(wire) => {
                    if was_there && !wire.is_present {
                        self.ledger.fault(Kind::Lost, &format!("the session of {client}"));
                    }
                    if *at != first && client.starts_with(SUBSCRIBER) {
                        locked(&self.returns).push(since.elapsed());
                    } else if was_there && *at == first && self.roams.is_some() {
                        locked(&self.moves).push(since.elapsed());
                    }
                    return Some(wire);
                }
                Err(error) => {
                    if is_late(node, begun) {
                        let what = format!("{client} cannot connect: {error}");
                        self.ledger.fault(Kind::Stuck, &what);
                        begun = Instant::now();
                    }
                    if self.are_kept {
                        *at = (*at + 1) % self.cluster.nodes.len();
                    }
                    thread::sleep(POLL);
                }
            }
        }
        None
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
        let (mut in_flight, mut number, mut was_there) = (VecDeque::new(), 0, false);
        let (mut at, mut course) = (self.node, Course::of(&self.shared, &client));
        while let Some(mut wire) = self.shared.connect(&mut at, &client, was_there) {
            was_there = true;
            // Retained messages of different nodes may arrive in another order than they were published.
            if !self.is_retained {
                course.arrive();
            }
            let published = self.publish((&mut wire, at), &course, (&mut in_flight, &mut number));
            at = course.next(at);
            match published {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    let what = format!("{client} has waited for {} messages", in_flight.len());
                    self.shared.ledger.fault(Kind::Stuck, &what);
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
        course: &Course,
        (in_flight, number): (&mut VecDeque<InFlight>, &mut u64),
    ) -> io::Result<()> {
        let node = &self.shared.cluster.nodes[at];
        for own in in_flight.iter_mut() {
            own.since = Instant::now();
            match own.is_released {
                true => wire.send(&Packet::PubRel(Ack::of(id(own.number))))?,
                false => self.send(wire, own.number, true)?,
            }
        }
        let (mut next, window) = (Instant::now(), if self.is_retained { 1 } else { WINDOW });
        loop {
            let is_over = self.shared.is_over.load(Ordering::Relaxed);
            if course.is_due() && !is_over {
                return Err(ErrorKind::Interrupted.into());
            }
            if is_over && in_flight.is_empty() {
                return Ok(());
            }
            if !is_over && in_flight.len() < window && Instant::now() >= next {
                *number += 1;
                let own = InFlight { number: *number, is_released: false, since: Instant::now() };
                in_flight.push_back(own);
                self.send(wire, *number, false)?;
                next = Instant::now() + self.shared.interval;
            }
            if in_flight.front().is_some_and(|own| is_late(node, own.since)) {
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
            let at = in_flight.iter().position(|own| id(own.number) == ack.id);
            let Some(at) = at else { continue };
            let own = &mut in_flight[at];
            if !ack.reason.is_failure() {
                self.accepted(own.number);
            }
            match release {
                Some(id) => {
                    own.is_released = true;
                    wire.send(&Packet::PubRel(Ack::of(id)))?;
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
        let (mut at, mut course) = (self.node, Course::of(&self.shared, &client));
        let mut received = HashSet::new();
        let mut was_there = false;
        while let Some(mut wire) = self.shared.connect(&mut at, &client, was_there) {
            was_there = true;
            locked(&self.shared.places).insert(client.clone(), at);
            course.arrive();
            // Ends with the connection.
            let _ = self.receive(&mut wire, &course, &mut received);
            at = course.next(at);
        }
    }

    fn receive(
        &self,
        wire: &mut Wire,
        course: &Course,
        received: &mut HashSet<PacketId>,
    ) -> io::Result<()> {
        if !wire.is_present {
            // The identifiers are those of another session.
            received.clear();
            let filter = match self.group {
                Some(group) => format!("$share/{group}/load/#"),
                None => "load/#".to_owned(),
            };
            wire.ask_for(&filter, QoS::ExactlyOnce)?;
        }
        let receiver = self.receiver();
        while !self.shared.is_complete.load(Ordering::Relaxed) && !course.is_due() {
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
                        Delivery::AtLeastOnce(id) => wire.send(&Packet::PubAck(Ack::of(id)))?,
                        Delivery::ExactlyOnce(id) => wire.send(&Packet::PubRec(Ack::of(id)))?,
                    }
                }
                Packet::PubRel(ack) => {
                    received.remove(&ack.id);
                    wire.send(&Packet::PubComp(Ack::of(ack.id)))?;
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
