//! Retained messages while the broker loses its power: who asks gets what was acknowledged last, or what was sent since;
//! and what was deleted stays so.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::{self, Net, World};
use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, Properties, Publish, QoS, Reason};

use crate::inbox::Inbox;
use crate::lives::{Cut, Everybody, Files, copied, handles, lives};
use crate::publisher::Said;
use crate::subscriber::{ask_for, look_at};
use crate::wire::{Lost, Wire};
use crate::{MESSAGES, PUBLISHERS, Shared, publisher, returning, subscriber};

/// Each publisher has so many topics of its own.
const TOPICS: usize = 3;

pub(crate) type Publishers = Vec<Rc<RefCell<publisher::Memory>>>;

/// Numbers of messages.
pub(crate) type ByTopics = BTreeMap<String, Vec<usize>>;

fn topic(publisher: usize, number: usize) -> String {
    format!("kept/{publisher}/{}", number % TOPICS)
}

/// The publisher of a topic, and the numbers of its messages there.
pub(crate) fn of_topic(topic: &str) -> (usize, impl Iterator<Item = usize> + Clone + use<>) {
    let mut levels = topic.split('/').skip(1).map(|level| level.parse().unwrap());
    (levels.next().unwrap(), (levels.next().unwrap()..MESSAGES).step_by(TOPICS))
}

/// Whether a message deletes what is retained. The last of some topics does.
pub(crate) fn deletes(publisher: usize, number: usize) -> bool {
    (number / TOPICS + number % TOPICS + publisher) % 3 == 2
}

/// The messages of a publisher's one topic behind the other.
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

/// Messages of one topic expire soon.
pub(crate) fn expiry(number: usize) -> Option<u32> {
    (number % TOPICS == 2).then_some(1 + number as u32 / TOPICS as u32 % 2)
}

/// One for each topic: what is sent again of QoS 1 is published again, and would come behind what is later and of QoS 2.
pub(crate) fn qos(number: usize) -> QoS {
    [QoS::AtLeastOnce, QoS::ExactlyOnce, QoS::AtLeastOnce][number % TOPICS]
}

/// What everybody knows.
#[derive(Clone)]
struct Known {
    publishers: Vec<publisher::Memory>,
    returning: returning::Memory,
}

struct Clients {
    publishers: Publishers,
    /// What who asks has got.
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

/// The messages of each topic that were answered, or sent.
pub(crate) fn by_topics(
    publishers: &Publishers,
    is: impl Fn(&publisher::Memory, usize) -> bool,
) -> ByTopics {
    let mut all = ByTopics::new();
    for (publisher, memory) in publishers.iter().enumerate() {
        for number in 0..MESSAGES {
            let of = all.entry(topic(publisher, number)).or_default();
            of.extend(is(&memory.borrow(), number).then_some(number));
        }
    }
    all
}

/// What somebody may find for a topic who has asked in this time, when a message was the last for it.
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
    // It is kept to the millisecond.
    let gone = expires(first) <= told + Duration::from_millis(1);
    may.into_iter().chain([gone.then_some(None)]).flatten().collect()
}

/// Somebody who asks what is retained, again and again, with a new session each time, until all is published.
async fn asks(net: Net, seed: u64, publishers: Publishers, heard: Rc<Cell<u64>>) {
    for round in 0.. {
        let is_last = publishers.iter().all(|own| own.borrow().is_through());
        if is_last && net.draw(2) == 0 {
            // What expires has.
            net.sleep(Duration::from_secs(3)).await;
        }
        let name = format!("asker {seed} {round}");
        let answered = by_topics(&publishers, publisher::Memory::is_answered);
        let asked = net.time_of_day();
        if let Ok(got) = ask(&net, (&name, "kept/#"), &heard).await {
            let sent = by_topics(&publishers, |own, number| number < own.next());
            for (topic, sent) in &sent {
                // What was answered last, or any that was sent since; none where that deletes.
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

/// A message that is retained.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) number: usize,
    pub(crate) qos: QoS,
    /// In so many seconds.
    pub(crate) expires: Option<u32>,
}

/// What is retained, by topics, where somebody asks who was never here.
pub(crate) async fn ask(
    net: &Net,
    (name, filter): (&str, &str),
    heard: &Cell<u64>,
) -> Result<BTreeMap<String, Found>, Lost> {
    let expiry = [0, 1000][net.draw(2) as usize];
    let (mut wire, reason) = Wire::ask(net, name, expiry).await?;
    if reason != Reason::SUCCESS {
        // The disk takes long.
        assert_eq!(reason, Reason::SERVER_UNAVAILABLE);
        return Err(Lost);
    }
    assert!(!wire.is_present, "{name} was never here");
    let end = format!("end of {name}");
    ask_for(&mut wire, &[filter, &end]).await?;
    let (mut inbox, mut got) = (Inbox::default(), BTreeMap::new());
    loop {
        let came = wire.next().await?;
        heard.set(heard.get() + 1);
        let packet = match came.packet() {
            // What is retained may come before this, and what is published now behind that.
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
            // The disk takes long.
            Packet::Disconnect(why) if why.reason == Reason::SERVER_UNAVAILABLE => {
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
        // Others are published just now.
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

/// Lets brokers live, and shows what is on their disks.
fn lives_of(seed: u64, left: impl FnMut(&Files)) {
    let publishers = vec![Default::default(); PUBLISHERS];
    let known = Known { publishers, returning: Default::default() };
    lives(seed, Cut::MIDST, known, enter, left);
}

#[test]
fn what_is_retained_survives_crashes() {
    sim::explore_each(20, |seed| lives_of(seed, |_| ()));
}

/// In which order what lies beneath a filter is told decides on all that comes after it.
#[test]
fn the_same_seed_leaves_the_same_disks() {
    for seed in 0..5 {
        let [one, other] = [(); 2].map(|()| {
            let mut disks = Vec::new();
            lives_of(seed, |files| disks.push(files.clone()));
            disks
        });
        assert!(one == other, "seed {seed}");
    }
}

/// That of each kind there is one.
#[test]
fn some_topics_end_with_nothing() {
    let last = |publisher, topic| deletes(publisher, MESSAGES - TOPICS + topic);
    let all = (0..PUBLISHERS).flat_map(|own| (0..TOPICS).map(move |topic| last(own, topic)));
    let deleted = all.filter(|deleted| *deleted).count();
    assert!((1..PUBLISHERS * TOPICS).contains(&deleted));
}
