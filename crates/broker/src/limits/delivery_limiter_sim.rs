//! Simulates many publishers with a large fan-out: deliveries in flight stay limited, and all messages arrive.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use phalanx::Graph;
use phalanx::sim::{self, Net};
use phalanx_mqtt::{
    Ack, Delivery, Packet, PacketId, Properties, Publish, Subscribe, SubscribeOptions,
    SubscriptionBuffer,
};

use crate::wire::{Wire, address, until};
use crate::{Broker, Config};

const PUBLISHERS: usize = 5;
const SUBSCRIBERS: usize = 4;
/// Messages per publisher, sent at once.
const MESSAGES: u16 = 30;

/// The maximum number of deliveries in flight with this limit, where each publisher also subscribes,
/// and some subscribers read nothing until all messages are published.
fn peak(seed: u64, limit: usize) -> usize {
    let peak = Rc::new(Cell::new(0));
    let of_world = peak.clone();
    sim::run(seed, move |world| {
        world.set_max_steps(4_000_000);
        let mut config = Config::new();
        config.runtime.workers = world.processors();
        let hour = Duration::from_secs(3600);
        (config.limits.connect, config.limits.send) = (hour, hour);
        config.limits.inflight_deliveries = limit;
        let mut graph = Graph::new();
        let broker = Broker::declare(&mut graph, &config);
        let observed_broker = broker.clone();
        let listeners = world.listen(address());
        world.program(graph, move |start| Ok(broker.accept(listeners.listener(start)?)?));
        let (subscribed, published) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let received = Rc::new(Cell::new(0));
        for number in 0..SUBSCRIBERS {
            let (net, subscribed, published) = (world.net(), subscribed.clone(), published.clone());
            let received = received.clone();
            world.client(async move {
                let mut wire = Wire::connect(&net, &format!("subscriber {number}")).await;
                subscribe(&mut wire).await;
                subscribed.set(subscribed.get() + 1);
                if number % 2 == 0 {
                    until(|| published.get() == PUBLISHERS).await;
                }
                let mut last = [0; PUBLISHERS];
                receive(&mut wire, &mut last, |_| false).await;
                received.set(received.get() + 1);
            });
        }
        for number in 0..PUBLISHERS {
            let (net, subscribed, published) = (world.net(), subscribed.clone(), published.clone());
            world.client(async move { publisher(net, number, &subscribed, &published).await });
        }
        world.client(async move {
            until(|| received.get() == SUBSCRIBERS && published.get() == PUBLISHERS).await;
            of_world.set(observed_broker.context().delivery_limiter.peak());
        });
    });
    peak.get()
}

async fn subscribe(wire: &mut Wire) {
    let mut wanted = SubscriptionBuffer::new();
    wanted.push("from/+", SubscribeOptions::default()).unwrap();
    let (id, filters) = (PacketId::MIN, wanted.to_subscribe());
    let subscribe = Subscribe { id, filters, properties: Properties::NONE };
    assert!(wire.send(&Packet::Subscribe(subscribe)).await.is_ok());
    let Ok(received) = wire.next().await else { panic!("no SUBACK") };
    assert!(matches!(received.packet(), Packet::SubAck(_)), "{:?}", received.packet());
}

/// Sends all messages at once, and reads only afterwards.
async fn publisher(net: Net, number: usize, subscribed: &Cell<usize>, published: &Cell<usize>) {
    let mut wire = Wire::connect(&net, &format!("publisher {number}")).await;
    subscribe(&mut wire).await;
    subscribed.set(subscribed.get() + 1);
    until(|| subscribed.get() == PUBLISHERS + SUBSCRIBERS).await;
    for message in 1..=MESSAGES {
        let (topic, payload) = (format!("from/{number}"), message.to_string());
        let id = PacketId::new(message).unwrap();
        // QoS 2 messages are registered together.
        let delivery = match message % 3 {
            0 => Delivery::AtMostOnce,
            1 => Delivery::AtLeastOnce(id),
            _ => Delivery::ExactlyOnce(id),
        };
        let publish = Publish {
            topic: &topic,
            payload: payload.as_bytes(),
            delivery,
            retain: false,
            duplicate: false,
            properties: Properties::NONE,
        };
        assert!(wire.send(&Packet::Publish(publish)).await.is_ok());
    }
    let (mut last, mut answered) = ([0; PUBLISHERS], 0);
    let awaited = MESSAGES - u16::from(MESSAGES.is_multiple_of(3));
    let is_answer = |packet: &Packet<'_>| {
        let id = match packet {
            Packet::PubAck(Ack { id, reason, .. }) | Packet::PubRec(Ack { id, reason, .. }) => {
                assert!(!reason.is_failure());
                id.get()
            }
            packet => panic!("a publisher gets {packet:?}"),
        };
        assert!(id > answered, "acknowledgements arrive in the order of the messages");
        answered = id;
        true
    };
    receive(&mut wire, &mut last, is_answer).await;
    while answered < awaited {
        let Ok(received) = wire.next().await else { panic!("an acknowledgement is missing") };
        answered = answered.max(match received.packet() {
            Packet::PubAck(ack) | Packet::PubRec(ack) => ack.id.get(),
            packet => panic!("a publisher gets {packet:?}"),
        });
    }
    published.set(published.get() + 1);
}

/// Receives until all messages of each publisher have arrived, in order and without duplicates; passes other
/// packets to `other`.
async fn receive(
    wire: &mut Wire,
    last: &mut [u16; PUBLISHERS],
    mut other: impl FnMut(&Packet<'_>) -> bool,
) {
    while last.iter().any(|last| *last < MESSAGES) {
        let Ok(received) = wire.next().await else { panic!("messages are missing: {last:?}") };
        match received.packet() {
            Packet::Publish(publish) => {
                let publisher: usize = publish.topic["from/".len()..].parse().unwrap();
                let message: u16 = std::str::from_utf8(publish.payload).unwrap().parse().unwrap();
                last[publisher] += 1;
                assert_eq!(message, last[publisher], "of publisher {publisher}");
            }
            packet => assert!(other(&packet), "{packet:?}"),
        }
    }
}

#[test]
fn deliveries_in_flight_are_limited() {
    // The deliveries of one message may exceed the limit.
    let beyond = PUBLISHERS + SUBSCRIBERS - 1;
    let unbounded = Cell::new(0);
    sim::explore_each(6, |seed| {
        for limit in [1, 20] {
            let peak = peak(seed, limit);
            assert!((1..=limit + beyond).contains(&peak), "{peak} of {limit}");
        }
        unbounded.set(unbounded.get().max(peak(seed, usize::MAX / 2)));
    });
    let unbounded = unbounded.get();
    assert!(unbounded > 20 + beyond, "without the limit few were in flight: {unbounded}");
}
