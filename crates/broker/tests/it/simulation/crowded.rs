//! A worker reaches its limit of operations while a client publishes. Messages that the broker refuses must not be
//! stored.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use phalanx::runtime::StartContext;
use phalanx::sim::{self, Faults, Net};
use phalanx::task::Either;
use phalanx::{Graph, SharedStage, select, sleep};
use phalanx_mqtt::{
    Ack, Delivery, Packet, PacketId, Properties, Property, PropertyBuffer, Publish, QoS, Reason,
    Will,
};

use crate::simulation::power_cuts::{Files, start_broker_beside, survivors};
use crate::simulation::subscriber::subscribe_to;
use crate::simulation::wire::{ConnectOptions, Lost, Wire};

/// The limit of operations.
const PLACES: usize = 60;

/// Operations that occupy most of each worker's slots on request.
#[derive(Default)]
struct Crowd {
    /// The number of slots to leave free; `None` releases all.
    leaves: Cell<Option<u64>>,
    /// The number of workers that the crowd occupies.
    there: Cell<usize>,
    /// Whether no further crowd arrives.
    is_over: Cell<bool>,
}

/// Makes the crowd occupy and release the slots repeatedly.
async fn reconnect_repeatedly(stage: SharedStage<()>, crowd: Rc<Crowd>) {
    let mut is_there = false;
    while !crowd.is_over.get() {
        if let Some(leaves) = crowd.leaves.get().filter(|_| !is_there) {
            let mut number = 0;
            let one = |number| {
                let crowd = crowd.clone();
                move |_| async move {
                    while number >= leaves && crowd.leaves.get().is_some() {
                        sleep(Duration::from_millis(5)).await;
                    }
                }
            };
            while stage.dispatch(one(number)).is_ok() {
                number += 1;
            }
            sleep(Duration::from_micros(1)).await;
            is_there = true;
            crowd.there.set(crowd.there.get() + 1);
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// Publishes a message, repeatedly until it is acknowledged. Returns the number of failed attempts.
async fn publish(net: &Net, number: u16, mut wire: Option<Wire>) -> u64 {
    for failed in 0.. {
        let mut own = match wire.take() {
            Some(wire) => wire,
            None => connect(net, "writer").await,
        };
        if send(&mut own, number).await.is_ok() {
            return failed;
        }
        net.sleep(Duration::from_millis(100)).await;
    }
    unreachable!("the loop has no end")
}

async fn connect(net: &Net, name: &str) -> Wire {
    loop {
        if let Ok((wire, Reason::SUCCESS)) = Wire::open_with_expiry(net, name, 1000).await {
            return wire;
        }
        net.sleep(Duration::from_millis(100)).await;
    }
}

async fn send(wire: &mut Wire, number: u16) -> Result<(), Lost> {
    let id = PacketId::new(number).unwrap();
    let (delivery, payload) = match number % 2 {
        0 => (Delivery::AtLeastOnce(id), &[number as u8]),
        _ => (Delivery::ExactlyOnce(id), &[number as u8]),
    };
    let (topic, retain, duplicate, properties) = ("t", false, false, Properties::NONE);
    let publish = Publish { topic, payload, delivery, retain, duplicate, properties };
    // The preceding message is refused, and counted as such.
    let mut text = PropertyBuffer::new();
    text.push(Property::PayloadIsText(true)).unwrap();
    let (payload, delivery, properties) = (&[0xff], Delivery::AtMostOnce, text.get());
    let refused = Publish { payload, delivery, properties, ..publish };
    wire.send_all(&[Packet::Publish(refused), Packet::Publish(publish)]).await?;
    loop {
        let received = wire.next().await?;
        match received.packet() {
            // There is no slot for the journal write: the message is not stored, and the client sends it
            // again.
            Packet::PubAck(ack) | Packet::PubRec(ack) if ack.reason == Reason::QUOTA_EXCEEDED => {
                return Err(Lost);
            }
            Packet::PubAck(ack) | Packet::PubComp(ack) => {
                assert!(!ack.reason.is_failure(), "{ack:?}");
                return Ok(());
            }
            Packet::PubRec(ack) => {
                assert!(!ack.reason.is_failure(), "{ack:?}");
                wire.send(&Packet::PubRel(Ack::success(ack.id))).await?;
            }
            _ => return Err(Lost),
        }
    }
}

/// Receives all messages; adds their numbers to `received_now`.
async fn receive(wire: &mut Wire, received_now: &RefCell<Vec<u8>>) -> Result<Infallible, Lost> {
    loop {
        let received = wire.next().await?;
        let answer = match received.packet() {
            Packet::Publish(own) => {
                received_now.borrow_mut().push(own.payload[0]);
                match own.delivery {
                    Delivery::ExactlyOnce(id) => Packet::PubRec(Ack::success(id)),
                    Delivery::AtLeastOnce(id) => Packet::PubAck(Ack::success(id)),
                    Delivery::AtMostOnce => panic!("{own:?}"),
                }
            }
            Packet::PubRel(ack) => Packet::PubComp(Ack::success(ack.id)),
            other => panic!("{other:?}"),
        };
        wire.send(&answer).await?;
    }
}

/// Whether the disk still holds a message for a client after a while.
async fn is_left(net: &Net) -> bool {
    for _ in 0..100 {
        net.sleep(Duration::from_secs(1)).await;
        let left = phalanx_store::recover(&survivors(net, 1), Path::new("/")).unwrap();
        if left.messages.is_empty()
            && left.sessions.values().all(|session| session.queue.is_empty())
        {
            return false;
        }
    }
    true
}

/// Publishes while the workers are crowded. Returns whether the first attempt succeeded.
fn publishes(seed: u64) -> bool {
    let at_once = Rc::new(Cell::new(false));
    let of_world = at_once.clone();
    sim::run(seed, |world| {
        world.set_max_steps(300_000);
        world.set_faults(Faults::NONE);
        let crowd = Rc::new(Crowd::default());
        let (mut graph, own) = (Graph::new(), crowd.clone());
        graph.max_operations(PLACES);
        let stage = graph.shared("crowd", ());
        let start = move |_: &StartContext| {
            let crowd = own.clone();
            stage.dispatch(move |_| reconnect_repeatedly(stage, crowd))
        };
        let broker = start_broker_beside(world, seed, &Files::default(), (graph, start));
        let (net, leaves, processors) = (world.net(), world.draw(10), world.processors());
        world.client(async move {
            let mut known = connect(&net, "known").await;
            subscribe_to(&mut known, &["t"]).await;
            drop(known);
            let number = 1 + seed as u16 % 2;
            let wire = connect(&net, "writer").await;
            net.sleep(Duration::from_millis(10)).await;
            crowd.leaves.set(Some(leaves));
            while crowd.there.get() < processors {
                net.sleep(Duration::from_millis(1)).await;
            }
            let (of_crowd, then) = (crowd.clone(), net.sleep(Duration::from_secs(1)));
            let running = async {
                then.await;
                of_crowd.leaves.set(None);
                of_crowd.is_over.set(true);
            };
            let publishes = publish(&net, number, Some(wire));
            let ((), mut failed) = both(running, publishes).await;
            of_world.set(failed == 0);
            failed += publish(&net, 4, None).await;
            let busy: u64 = broker
                .dropped()
                .filter(|dropped| dropped.0 == "busy")
                .map(|dropped| dropped.1)
                .sum();
            assert!(busy <= failed, "{busy} messages of {failed} attempts");
            let mut known = connect(&net, "known").await;
            assert!(known.is_present);
            let received_now = RefCell::default();
            let is_left = pin!(is_left(&net));
            let Either::Right(left) =
                select(pin!(receive(&mut known, &received_now)), is_left).await
            else {
                panic!("the connection is lost");
            };
            assert!(!left, "the broker holds a message for a client that has everything");
            let received_now = received_now.take();
            // A QoS 1 message may arrive again.
            let last = received_now.len() - 1;
            let is_once =
                last == 1 || number == 2 && received_now[1..last].iter().all(|count| *count == 2);
            assert!(
                is_once && received_now[0] == number as u8 && received_now[last] == 4,
                "{received_now:?}"
            );
        });
    });
    at_once.get()
}

/// Runs both futures to the end.
async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (Box::pin(one), Box::pin(other));
    match select(one.as_mut(), other.as_mut()).await {
        Either::Left(result) => (result, other.await),
        Either::Right(result) => (one.await, result),
    }
}

#[test]
fn refused_messages_are_not_stored() {
    let (at_once, later) = (Cell::new(0), Cell::new(0));
    sim::explore_each(30, |seed| {
        let count = if publishes(seed) { &at_once } else { &later };
        count.set(count.get() + 1);
    });
    let alone = std::env::var_os("PHALANX_SEED").is_some();
    assert!(alone || at_once.get() > 0 && later.get() > 0, "{at_once:?} {later:?}");
}

/// The topics of the next messages, which are acknowledged.
async fn topics(wire: &mut Wire, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count {
        let Ok(received) = wire.next().await else { panic!("{all:?}, of {count}") };
        let answer = match received.packet() {
            Packet::Publish(own) => {
                all.push(own.topic.to_owned());
                match own.delivery {
                    Delivery::ExactlyOnce(id) => Packet::PubRec(Ack::success(id)),
                    Delivery::AtLeastOnce(id) => Packet::PubAck(Ack::success(id)),
                    Delivery::AtMostOnce => continue,
                }
            }
            Packet::PubRel(ack) => Packet::PubComp(Ack::success(ack.id)),
            other => panic!("{other:?}"),
        };
        assert!(wire.send(&answer).await.is_ok());
    }
    all
}

/// A member of a group is lost while the workers are crowded: its will is published, and the group's messages go to the
/// other member.
fn is_lost(seed: u64) {
    sim::run(seed, |world| {
        world.set_max_steps(600_000);
        world.set_faults(Faults::NONE);
        let crowd = Rc::new(Crowd::default());
        let (mut graph, own) = (Graph::new(), crowd.clone());
        graph.max_operations(PLACES);
        let stage = graph.shared("crowd", ());
        let start = move |_: &StartContext| {
            let crowd = own.clone();
            stage.dispatch(move |_| reconnect_repeatedly(stage, crowd))
        };
        start_broker_beside(world, seed, &Files::default(), (graph, start));
        let (net, leaves, processors) = (world.net(), world.draw(10), world.processors());
        let delay = world.draw(2) as u32;
        world.client(async move {
            let mut stays = connect(&net, "stays").await;
            subscribe_to(&mut stays, &["$share/g/t", "will"]).await;
            let mut properties = PropertyBuffer::new();
            properties.push(Property::WillDelay(delay)).unwrap();
            let (topic, payload, qos, retain) = ("will", &b"x"[..], QoS::AtLeastOnce, false);
            let will = Some(Will { topic, payload, qos, retain, properties: properties.get() });
            let options =
                ConnectOptions { name: "lost", expiry: 1000, will, ..ConnectOptions::default() };
            let Ok((mut lost, Reason::SUCCESS)) = Wire::open(&net, options).await else { panic!() };
            subscribe_to(&mut lost, &["$share/g/t"]).await;
            crowd.leaves.set(Some(leaves));
            while crowd.there.get() < processors {
                net.sleep(Duration::from_millis(1)).await;
            }
            lost.reset();
            net.sleep(Duration::from_secs(1)).await;
            crowd.leaves.set(None);
            crowd.is_over.set(true);
            // No other client disconnects.
            let mut soon = pin!(net.sleep(Duration::from_secs(100)));
            let received = match select(pin!(topics(&mut stays, 1)), soon.as_mut()).await {
                Either::Left(received) => received,
                Either::Right(()) => panic!("the will is lost"),
            };
            assert_eq!(received, ["will"]);
            let mut writer = connect(&net, "writer").await;
            for number in 1..=4 {
                let id = PacketId::new(number).unwrap();
                let (topic, payload, properties) = ("t", &b"x"[..], Properties::NONE);
                let (delivery, retain) = (Delivery::AtLeastOnce(id), false);
                let publish =
                    Publish { topic, payload, delivery, retain, duplicate: false, properties };
                assert!(writer.send(&Packet::Publish(publish)).await.is_ok());
            }
            match select(pin!(topics(&mut stays, 4)), soon.as_mut()).await {
                Either::Left(received) => assert_eq!(received, ["t"; 4]),
                Either::Right(()) => panic!("a client that is away gets messages of the group"),
            }
        });
    });
}

#[test]
fn the_effects_of_a_lost_connection_are_retried() {
    sim::explore_each(60, is_lost);
}
