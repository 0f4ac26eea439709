//! Retained messages while the broker loses power. A subscriber receives the last acknowledged message, or one sent
//! since. A deleted message stays deleted.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::{self, Net, World};
use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, Properties, Publish, QoS, Reason};

use crate::simulation::inbox::Inbox;
use crate::simulation::lives::{Cut, Everybody, Files, copied, handles, lives};
use crate::simulation::publisher::Said;
use crate::simulation::subscriber::{ask_for, look_at};
use crate::simulation::wire::{Lost, Wire};
use crate::simulation::{MESSAGES, PUBLISHERS, Shared, publisher, returning, subscriber};

/// Topics of each publisher.
const TOPICS: usize = 3;

pub(crate) type Publishers = Vec<Rc<RefCell<publisher::Memory>>>;

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
fn says(publisher: usize, number: usize) -> Said {
    let payload = if deletes(publisher, number) { String::new() } else { number.to_string() };
    Said {
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
struct Known {
    publishers: Vec<publisher::Memory>,
    returning: returning::Memory,
}

struct Clients {
    publishers: Publishers,
    /// The number of packets that the reader received.
    heard: Rc<Cell<u64>>,
    is_over: Rc<Cell<bool>>,
    returning: Rc<RefCell<returning::Memory>>,
}

impl Everybody for Clients {
    type Moment = Known;

    fn heard(&self) -> u64 {
        let of_publishers = self.publishers.iter().map(|own| own.borrow().heard());
        of_publishers.chain([self.heard.get(), self.returning.borrow().heard()]).sum()
    }

    fn are_through(&self) -> bool {
        self.is_over.get() && self.returning.borrow().has_all()
    }

    fn moment(&self) -> Known {
        let returning = self.returning.borrow().clone();
        Known { publishers: copied(&self.publishers), returning }
    }
}

/// The acknowledged messages of each topic, and the sent ones.
pub(crate) fn by_topics(
    publishers: &Publishers,
    includes: impl Fn(&publisher::Memory, usize) -> bool,
) -> ByTopics {
    let mut all = ByTopics::new();
    for (publisher, memory) in publishers.iter().enumerate() {
        for number in 0..MESSAGES {
            let numbers = all.entry(topic(publisher, number)).or_default();
            numbers.extend(includes(&memory.borrow(), number).then_some(number));
        }
    }
    all
}

/// The retained messages that a reader may receive if message `number` is the last of its topic; `None` stands
/// for no message. `asked` and `told` are the times of the SUBSCRIBE and of the answer.
fn may_find(
    publisher: (usize, &publisher::Memory),
    number: usize,
    (asked, told): (Duration, Duration),
) -> Vec<Option<usize>> {
    let (publisher, memory) = publisher;
    if deletes(publisher, number) {
        return vec![None];
    }
    let Some(expiry) = expiry(number) else { return vec![Some(number)] };
    let (first, last) = memory.times(number);
    let expires = |at: Duration| at.saturating_add(Duration::from_secs(expiry.into()));
    let may = [(expires(last) >= asked).then_some(Some(number))];
    // Times are stored in milliseconds.
    let gone = expires(first) <= told + Duration::from_millis(1);
    may.into_iter().chain([gone.then_some(None)]).flatten().collect()
}

/// A reader that subscribes repeatedly, each time with a new session, until all messages are published.
async fn asks(net: Net, seed: u64, publishers: Publishers, heard: Rc<Cell<u64>>) {
    for round in 0.. {
        let is_last = publishers.iter().all(|own| own.borrow().is_through());
        if is_last && net.draw(2) == 0 {
            // By then, messages that expire have expired.
            net.sleep(Duration::from_secs(3)).await;
        }
        let name = format!("asker {seed} {round}");
        let answered = by_topics(&publishers, publisher::Memory::is_answered);
        let asked = net.time_of_day();
        if let Ok(got) = ask(&net, (&name, "kept/#"), &heard).await {
            let sent = by_topics(&publishers, |own, number| number < own.next());
            for (topic, sent) in &sent {
                // Expected is the last acknowledged message or one sent since, or none if that message deletes.
                let answered = answered[topic].last();
                let (publisher, _) = of_topic(topic);
                let own = got.get(topic).map(|own| own.number);
                let was_nothing = answered.is_none() && own.is_none();
                let since = sent.iter().filter(|number| Some(*number) >= answered);
                let memory = publishers[publisher].borrow();
                let (memory, when) = ((publisher, &*memory), (asked, net.time_of_day()));
                let may: Vec<_> = since.flat_map(|own| may_find(memory, *own, when)).collect();
                assert!(was_nothing || may.contains(&own), "{topic}: {own:?}, not of {may:?}");
            }
            for Found { number, qos: with, expires } in got.values() {
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
pub(crate) async fn ask(
    net: &Net,
    (name, filter): (&str, &str),
    heard: &Cell<u64>,
) -> Result<BTreeMap<String, Found>, Lost> {
    let expiry = [0, 1000][net.draw(2) as usize];
    let (mut wire, reason) = Wire::ask(net, name, expiry).await?;
    if reason != Reason::SUCCESS {
        // The broker's disk is slow.
        assert_eq!(reason, Reason::SERVER_UNAVAILABLE);
        return Err(Lost);
    }
    assert!(!wire.is_present, "{name} is a new client");
    let end = format!("end of {name}");
    ask_for(&mut wire, &[filter, &end]).await?;
    let (mut inbox, mut got) = (Inbox::default(), BTreeMap::new());
    loop {
        let came = wire.next().await?;
        heard.set(heard.get() + 1);
        let packet = match came.packet() {
            // Retained messages may arrive before the SUBACK; other messages arrive after it.
            Packet::SubAck(ack) => {
                look_at(&ack)?;
                wire.say(&Packet::Publish(Publish {
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
            Packet::Disconnect(why) if why.reason == Reason::SERVER_BUSY => {
                return Err(Lost);
            }
            packet => packet,
        };
        let (new, answer) = inbox.take(packet);
        if let Some(answer) = answer {
            wire.say(&answer).await?;
        }
        let Some(publish) = new else { continue };
        if publish.topic == end {
            return Ok(got);
        }
        // Messages without the retain flag were just published.
        if publish.retain {
            let number = std::str::from_utf8(publish.payload).unwrap().parse().unwrap();
            let qos = publish.delivery.qos();
            let expires = subscriber::expiry(&publish);
            let found = Found { number, qos, expires };
            assert_eq!(got.insert(publish.topic.to_owned(), found), None, "{publish:?}");
        }
    }
}

fn enter(world: &mut World, breaks: bool, known: &Known) -> Clients {
    let own = Rc::new(Shared::default());
    own.breaks.set(breaks);
    let publishers = handles(&known.publishers);
    publisher::enter(world, &own, says, &publishers);
    let (heard, is_over) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let asks = asks(world.net(), world.seed(), publishers.clone(), heard.clone());
    let over = is_over.clone();
    world.client(async move {
        asks.await;
        over.set(true);
    });
    let returning = Rc::new(RefCell::new(known.returning.clone()));
    world.client(returning::run(world.net(), own, publishers.clone(), returning.clone()));
    Clients { publishers, heard, is_over, returning }
}

/// Runs brokers, and calls `left` with the files on their disks.
fn lives_of(seed: u64, left: impl FnMut(&Files)) {
    let publishers = vec![Default::default(); PUBLISHERS];
    let known = Known { publishers, returning: Default::default() };
    lives(seed, Cut::MIDST, known, enter, left);
}

#[test]
fn retained_messages_survive_crashes() {
    sim::explore_each(20, |seed| lives_of(seed, |_| ()));
}

/// Detects a nondeterministic order of retained messages, which would change everything after it.
#[test]
fn the_same_seed_leaves_the_same_disks() {
    for seed in 0..10 {
        let [one, other] = [(); 2].map(|()| {
            let mut disks = Vec::new();
            lives_of(seed, |files| disks.push(files.clone()));
            disks
        });
        assert!(one == other, "seed {seed}");
    }
}

/// The sets of files must include both kinds.
#[test]
fn some_topics_end_without_a_message() {
    let last = |publisher, topic| deletes(publisher, MESSAGES - TOPICS + topic);
    let all = (0..PUBLISHERS).flat_map(|own| (0..TOPICS).map(move |topic| last(own, topic)));
    let deleted = all.filter(|deleted| *deleted).count();
    assert!((1..PUBLISHERS * TOPICS).contains(&deleted));
}
