//! Retained messages while the broker loses its power: who asks gets what was acknowledged last, or what was sent since;
//! and what was deleted stays so.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::{self, Net, World};
use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, Properties, Publish, QoS, Reason};

use crate::inbox::Inbox;
use crate::lives::{Cut, Everybody, copied, handles, lives};
use crate::publisher::Said;
use crate::subscriber::{ask_for, look_at};
use crate::wire::{Lost, Wire};
use crate::{MESSAGES, PUBLISHERS, Shared, publisher};

/// Each publisher has so many topics of its own.
const TOPICS: usize = 2;

fn topic(publisher: usize, number: usize) -> String {
    format!("kept/{publisher}/{}", number % TOPICS)
}

/// Whether a message deletes what is retained. The last of some topics does.
fn deletes(publisher: usize, number: usize) -> bool {
    (number / TOPICS + number % TOPICS + publisher) % 3 == 2
}

/// The messages of a publisher's one topic behind the other.
fn says(publisher: usize, number: usize) -> Said {
    let payload = if deletes(publisher, number) { String::new() } else { number.to_string() };
    Said { topic: topic(publisher, number), payload, qos: qos(number), retain: true }
}

/// One for each topic: what is sent again of QoS 1 is published again, and would come behind what is later and of QoS 2.
fn qos(number: usize) -> QoS {
    [QoS::AtLeastOnce, QoS::ExactlyOnce][number % TOPICS]
}

struct Clients {
    publishers: Vec<Rc<RefCell<publisher::Memory>>>,
    /// What who asks has got.
    heard: Rc<Cell<u64>>,
    is_over: Rc<Cell<bool>>,
}

impl Everybody for Clients {
    type Moment = Vec<publisher::Memory>;

    fn heard(&self) -> u64 {
        let of_publishers = self.publishers.iter().map(|own| own.borrow().heard());
        of_publishers.chain([self.heard.get()]).sum()
    }

    fn are_through(&self) -> bool {
        self.is_over.get()
    }

    fn moment(&self) -> Vec<publisher::Memory> {
        copied(&self.publishers)
    }
}

/// How many messages of each publisher's each topic were answered, or sent.
fn counts(
    publishers: &[Rc<RefCell<publisher::Memory>>],
    counts: impl Fn(&publisher::Memory, usize) -> bool,
) -> BTreeMap<String, Vec<usize>> {
    let mut all = BTreeMap::<_, Vec<_>>::new();
    for (publisher, memory) in publishers.iter().enumerate() {
        for number in 0..MESSAGES {
            let of = all.entry(topic(publisher, number)).or_default();
            of.extend(counts(&memory.borrow(), number).then_some(number));
        }
    }
    all
}

/// Somebody who asks what is retained, again and again, with a new session each time, until all is published.
async fn asks(
    net: Net,
    seed: u64,
    publishers: Vec<Rc<RefCell<publisher::Memory>>>,
    heard: Rc<Cell<u64>>,
) {
    for round in 0.. {
        let is_last = publishers.iter().all(|own| own.borrow().is_through());
        let name = format!("asker {seed} {round}");
        let answered = counts(&publishers, publisher::Memory::is_answered);
        if let Ok(got) = ask(&net, &name, &heard).await {
            let sent = counts(&publishers, |own, number| number < own.next());
            for (topic, sent) in &sent {
                // What was answered last, or any that was sent since; none where that deletes.
                let answered = answered[topic].last();
                let publisher: usize = topic.split('/').nth(1).unwrap().parse().unwrap();
                let own = got.get(topic).copied();
                let was_nothing = answered.is_none() && own.is_none();
                let since = sent.iter().filter(|number| Some(*number) >= answered);
                let may = since.map(|number| (!deletes(publisher, *number)).then_some(*number));
                let may: Vec<_> = may.collect();
                assert!(was_nothing || may.contains(&own), "{topic}: {own:?}, not of {may:?}");
            }
            if is_last {
                return;
            }
        }
        net.sleep(Duration::from_millis(net.draw(30))).await;
    }
}

/// What is retained, by topics.
async fn ask(net: &Net, name: &str, heard: &Cell<u64>) -> Result<BTreeMap<String, usize>, Lost> {
    let expiry = [0, 1000][net.draw(2) as usize];
    let (mut wire, reason) = Wire::ask(net, name, expiry).await?;
    if reason != Reason::SUCCESS {
        // The disk takes long.
        assert_eq!(reason, Reason::SERVER_UNAVAILABLE);
        return Err(Lost);
    }
    assert!(!wire.is_present, "{name} was never here");
    let end = format!("end of {name}");
    ask_for(&mut wire, &["kept/#", &end]).await?;
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
            assert_eq!(publish.delivery.qos(), qos(number), "{publish:?}");
            assert_eq!(got.insert(publish.topic.to_owned(), number), None, "{publish:?}");
        }
    }
}

fn enter(world: &mut World, breaks: bool, known: &[publisher::Memory]) -> Clients {
    let own = Rc::new(Shared::default());
    own.breaks.set(breaks);
    let publishers = handles(known);
    publisher::enter(world, &own, says, &publishers);
    let (heard, is_over) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let asks = asks(world.net(), world.seed(), publishers.clone(), heard.clone());
    let over = is_over.clone();
    world.client(async move {
        asks.await;
        over.set(true);
    });
    Clients { publishers, heard, is_over }
}

#[test]
fn what_is_retained_survives_crashes() {
    sim::explore_each(20, |seed| {
        let known = vec![Default::default(); PUBLISHERS];
        let enter = |world: &mut World, breaks, known: &Vec<_>| enter(world, breaks, known);
        lives(seed, Cut::MIDST, known, enter, |_| ());
    });
}

/// That of each kind there is one.
#[test]
fn some_topics_end_with_nothing() {
    let last = |publisher, topic| deletes(publisher, MESSAGES - TOPICS + topic);
    let all = (0..PUBLISHERS).flat_map(|own| (0..TOPICS).map(move |topic| last(own, topic)));
    let deleted = all.filter(|deleted| *deleted).count();
    assert!((1..PUBLISHERS * TOPICS).contains(&deleted));
}
