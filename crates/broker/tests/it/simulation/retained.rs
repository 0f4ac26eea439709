//! Retained messages while the broker loses power. A subscriber receives the last acknowledged message, or one sent
//! since. A deleted message stays deleted.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::{self, Net, World};
use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, Properties, Publish, QoS, Reason};

use crate::simulation::inbox::Inbox;
use crate::simulation::power_cuts::{ClientSet, Cut, Files, cloned_states, handles, run_lives};
use crate::simulation::publisher::MessageSpec;
use crate::simulation::subscriber::{check_suback, send_subscribe};
use crate::simulation::wire::{Lost, Wire};
use crate::simulation::{MESSAGES, PUBLISHERS, Shared, publisher, returning, subscriber};

/// Topics of each publisher.
const TOPICS: usize = 3;

pub(crate) type Publishers = Vec<Rc<RefCell<publisher::State>>>;

/// Message numbers by topic.
pub(crate) type ByTopics = BTreeMap<String, Vec<usize>>;

fn topic(publisher: usize, number: usize) -> String {
    format!("kept/{publisher}/{}", number % TOPICS)
}

/// The publisher of a topic, and the numbers of its messages there.
pub(crate) fn of_topic(topic: &str) -> (usize, impl Iterator<Item = usize> + Clone + use<>) {
    let mut levels = topic.split('/').skip(1).map(|level| level.parse().unwrap());
    (levels.next().unwrap(), (levels.next().unwrap()..MESSAGES).step_by(TOPICS))
}

/// Whether a message deletes the retained message. The last message of some topics does.
pub(crate) fn deletes(publisher: usize, number: usize) -> bool {
    (number / TOPICS + number % TOPICS + publisher) % 3 == 2
}

/// Makes the messages of a publisher, to each topic in turn.
fn make_message(publisher: usize, number: usize) -> MessageSpec {
    let payload = if deletes(publisher, number) { String::new() } else { number.to_string() };
    MessageSpec {
        topic: topic(publisher, number),
        payload,
        qos: qos(number),
        retain: true,
        expiry: expiry(number),
    }
}

/// The messages of one topic expire soon.
pub(crate) fn expiry(number: usize) -> Option<u32> {
    (number % TOPICS == 2).then_some(1 + number as u32 / TOPICS as u32 % 2)
}

/// All messages of a topic have the same QoS, because a retransmitted QoS 1 message would arrive after later QoS 2
/// messages.
pub(crate) fn qos(number: usize) -> QoS {
    [QoS::AtLeastOnce, QoS::ExactlyOnce, QoS::AtLeastOnce][number % TOPICS]
}

/// State shared by all clients.
#[derive(Clone)]
struct ClientStates {
    publishers: Vec<publisher::State>,
    returning: returning::State,
}

struct Clients {
    publishers: Publishers,
    /// The number of packets that the reader received.
    packets_received: Rc<Cell<u64>>,
    is_over: Rc<Cell<bool>>,
    returning: Rc<RefCell<returning::State>>,
}

impl ClientSet for Clients {
    type Snapshot = ClientStates;

    fn packets_received(&self) -> u64 {
        let of_publishers =
            self.publishers.iter().map(|publisher| publisher.borrow().packets_received());
        of_publishers
            .chain([self.packets_received.get(), self.returning.borrow().packets_received()])
            .sum()
    }

    fn are_done(&self) -> bool {
        self.is_over.get() && self.returning.borrow().has_all()
    }

    fn snapshot(&self) -> ClientStates {
        let returning = self.returning.borrow().clone();
        ClientStates { publishers: cloned_states(&self.publishers), returning }
    }
}

/// The acknowledged messages of each topic, and the sent ones.
pub(crate) fn by_topics(
    publishers: &Publishers,
    includes: impl Fn(&publisher::State, usize) -> bool,
) -> ByTopics {
    let mut all = ByTopics::new();
    for (publisher, state) in publishers.iter().enumerate() {
        for number in 0..MESSAGES {
            let numbers = all.entry(topic(publisher, number)).or_default();
            numbers.extend(includes(&state.borrow(), number).then_some(number));
        }
    }
    all
}

/// The retained messages that a reader may receive if message `number` is the last of its topic; `None` stands
/// for no message. `asked_at` and `answered_at` are the times of the SUBSCRIBE and of the answer.
fn allowed_retained(
    publisher: (usize, &publisher::State),
    number: usize,
    (asked_at, answered_at): (Duration, Duration),
) -> Vec<Option<usize>> {
    let (publisher, state) = publisher;
    if deletes(publisher, number) {
        return vec![None];
    }
    let Some(expiry) = expiry(number) else { return vec![Some(number)] };
    let (first, last) = state.times(number);
    let expires = |at: Duration| at.saturating_add(Duration::from_secs(expiry.into()));
    let allowed = [(expires(last) >= asked_at).then_some(Some(number))];
    // Times are stored in milliseconds.
    let may_be_expired = expires(first) <= answered_at + Duration::from_millis(1);
    allowed.into_iter().chain([may_be_expired.then_some(None)]).flatten().collect()
}

/// A reader that subscribes repeatedly, each time with a new session, until all messages are published.
async fn read_repeatedly(
    net: Net,
    seed: u64,
    publishers: Publishers,
    packets_received: Rc<Cell<u64>>,
) {
    for round in 0.. {
        let is_last = publishers.iter().all(|publisher| publisher.borrow().is_done());
        if is_last && net.draw(2) == 0 {
            // By then, messages that expire have expired.
            net.sleep(Duration::from_secs(3)).await;
        }
        let name = format!("asker {seed} {round}");
        let acknowledged = by_topics(&publishers, publisher::State::is_acknowledged);
        let asked_at = net.time_of_day();
        if let Ok(messages) = read_retained(&net, (&name, "kept/#"), &packets_received).await {
            let sent = by_topics(&publishers, |publisher, number| number < publisher.next());
            for (topic, sent) in &sent {
                // Expected is the last acknowledged message or one sent since, or none if that message deletes.
                let acknowledged = acknowledged[topic].last();
                let (publisher, _) = of_topic(topic);
                let own = messages.get(topic).map(|message| message.number);
                let has_none = acknowledged.is_none() && own.is_none();
                let since = sent.iter().filter(|number| Some(*number) >= acknowledged);
                let state = publishers[publisher].borrow();
                let (state, when) = ((publisher, &*state), (asked_at, net.time_of_day()));
                let allowed: Vec<_> =
                    since.flat_map(|number| allowed_retained(state, *number, when)).collect();
                assert!(has_none || allowed.contains(&own), "{topic}: {own:?}, not of {allowed:?}");
            }
            for Found { number, qos: with, expires } in messages.values() {
                assert_eq!(*with, qos(*number), "{number}");
                let most = expiry(*number);
                assert!(expires.is_some() == most.is_some() && *expires <= most, "{expires:?}");
            }
            if is_last {
                return;
            }
        }
        net.sleep(Duration::from_millis(net.draw(30))).await;
    }
}

/// A retained message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) number: usize,
    pub(crate) qos: QoS,
    /// The remaining expiry interval in seconds.
    pub(crate) expires: Option<u32>,
}

/// The retained messages by topic, as a new session receives them.
pub(crate) async fn read_retained(
    net: &Net,
    (name, filter): (&str, &str),
    packets_received: &Cell<u64>,
) -> Result<BTreeMap<String, Found>, Lost> {
    let expiry = [0, 1000][net.draw(2) as usize];
    let (mut wire, reason) = Wire::open_with_expiry(net, name, expiry).await?;
    if reason != Reason::SUCCESS {
        // The broker's disk is slow.
        assert_eq!(reason, Reason::SERVER_UNAVAILABLE);
        return Err(Lost);
    }
    assert!(!wire.is_present, "{name} is a new client");
    let end = format!("end of {name}");
    send_subscribe(&mut wire, &[filter, &end]).await?;
    let (mut inbox, mut messages) = (Inbox::default(), BTreeMap::new());
    loop {
        let received = wire.next().await?;
        packets_received.set(packets_received.get() + 1);
        let packet = match received.packet() {
            // SUBACK comes first, unless the disk is slow or the retained messages are many.
            Packet::SubAck(ack) => {
                check_suback(&ack)?;
                wire.send(&Packet::Publish(Publish {
                    topic: &end,
                    payload: b"0",
                    delivery: Delivery::AtLeastOnce(PacketId::MIN),
                    retain: false,
                    duplicate: false,
                    properties: Properties::NONE,
                }))
                .await?;
                continue;
            }
            Packet::PubAck(Ack { reason, .. }) => {
                assert!(!reason.is_failure(), "{reason:?}");
                continue;
            }
            // The broker's disk is slow.
            Packet::Disconnect(disconnect) if disconnect.reason == Reason::SERVER_BUSY => {
                return Err(Lost);
            }
            packet => packet,
        };
        let (new, answer) = inbox.take(packet);
        if let Some(answer) = answer {
            wire.send(&answer).await?;
        }
        let Some(publish) = new else { continue };
        if publish.topic == end {
            return Ok(messages);
        }
        // Messages without the retain flag were just published.
        if publish.retain {
            let number = std::str::from_utf8(publish.payload).unwrap().parse().unwrap();
            let qos = publish.delivery.qos();
            let expires = subscriber::expiry(&publish);
            let found = Found { number, qos, expires };
            assert_eq!(messages.insert(publish.topic.to_owned(), found), None, "{publish:?}");
        }
    }
}

fn add_clients(world: &mut World, breaks: bool, states: &ClientStates) -> Clients {
    let own = Rc::new(Shared::default());
    own.breaks.set(breaks);
    let publishers = handles(&states.publishers);
    publisher::add_all(world, &own, make_message, &publishers);
    let (packets_received, is_over) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let reader =
        read_repeatedly(world.net(), world.seed(), publishers.clone(), packets_received.clone());
    let is_over_writer = is_over.clone();
    world.client(async move {
        reader.await;
        is_over_writer.set(true);
    });
    let returning = Rc::new(RefCell::new(states.returning.clone()));
    world.client(returning::run(world.net(), own, publishers.clone(), returning.clone()));
    Clients { publishers, packets_received, is_over, returning }
}

/// Runs brokers, and calls `on_power_cut` with the files on their disks.
fn run_seed(seed: u64, on_power_cut: impl FnMut(&Files)) {
    let publishers = vec![Default::default(); PUBLISHERS];
    let states = ClientStates { publishers, returning: Default::default() };
    run_lives(seed, Cut::WHILE_PUBLISHING, states, add_clients, on_power_cut);
}

#[test]
fn retained_messages_survive_crashes() {
    sim::explore_each(20, |seed| run_seed(seed, |_| ()));
}

/// Detects a nondeterministic order of retained messages, which would change everything after it.
#[test]
fn the_same_seed_leaves_the_same_disks() {
    for seed in 0..10 {
        let [one, other] = [(); 2].map(|()| {
            let mut disks = Vec::new();
            run_seed(seed, |files| disks.push(files.clone()));
            disks
        });
        assert!(one == other, "seed {seed}");
    }
}

/// The sets of files must include both kinds.
#[test]
fn some_topics_end_without_a_message() {
    let last = |publisher, topic| deletes(publisher, MESSAGES - TOPICS + topic);
    let all =
        (0..PUBLISHERS).flat_map(|publisher| (0..TOPICS).map(move |topic| last(publisher, topic)));
    let deleted = all.filter(|deleted| *deleted).count();
    assert!((1..PUBLISHERS * TOPICS).contains(&deleted));
}
