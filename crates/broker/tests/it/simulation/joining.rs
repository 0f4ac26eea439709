//! Publishers move to the processor with the session of their receiver. The loads are random numbers, so connections also
//! spread.

use std::cell::Cell;
use std::rc::Rc;

use phalanx::Graph;
use phalanx::sim::{self, Faults, Net, World};
use phalanx_broker::Broker;
use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, Properties, Publish};

use crate::simulation::config;
use crate::simulation::subscriber::subscribe_to;
use crate::simulation::wire::{Wire, address, until};

const PUBLISHERS: usize = 3;
/// Messages of each publisher.
const MESSAGES: usize = 60;
/// Maximum number of a publisher's unacknowledged messages.
const WINDOW: usize = 4;

fn world(world: &mut World) {
    world.set_processors(2 + world.seed() as usize % 3);
    if world.draw(2) == 0 {
        world.set_faults(Faults { reset: 0, accept: 0, full: 0, ..Faults::random(world.seed()) });
    }
    let receivers = if world.draw(2) == 0 { 1 } else { PUBLISHERS };
    add_clients(world, receivers, Rc::default());
}

/// Adds a broker, all publishers, and either one receiver for all of them or one for each. Adds to `joined` the number of
/// publishers that join their receiver.
fn add_clients(world: &mut World, receivers: usize, joined: Rc<Cell<u64>>) {
    world.set_max_steps(2_000_000);
    let mut graph = Graph::new();
    let broker = Broker::declare(&mut graph, &config(world));
    let (listeners, accepting) = (world.listen(address()), broker.clone());
    world.program(graph, move |start| Ok(accepting.accept(listeners.listener(start)?)?));
    world.after_shutdown(move || joined.set(joined.get() + broker.joined_publishers()));
    let ready = Rc::new(Cell::new(0));
    for receiver in 0..receivers {
        let publishers = (0..PUBLISHERS).filter(|publisher| publisher % receivers == receiver);
        world.client(receive(world.net(), publishers.collect(), ready.clone()));
    }
    for publisher in 0..PUBLISHERS {
        world.client(publish(world.net(), publisher, (ready.clone(), receivers)));
    }
}

/// Receives all messages of these publishers, each once, in the order of its publisher.
async fn receive(net: Net, publishers: Vec<usize>, ready: Rc<Cell<usize>>) {
    let name = format!("receiver {}", publishers[0]);
    let mut wire = Wire::connect_at(&net, &name, address()).await;
    for publisher in &publishers {
        subscribe_to(&mut wire, &[&format!("from/{publisher}")]).await;
    }
    ready.set(ready.get() + 1);
    let mut next = [0; PUBLISHERS];
    while publishers.iter().any(|publisher| next[*publisher] < MESSAGES) {
        let came = wire.next().await.ok().expect("the connection stays open");
        let Packet::Publish(publish) = came.packet() else { panic!("{:?}", came.packet()) };
        let (_, publisher) = publish.topic.split_once('/').unwrap();
        let next = &mut next[publisher.parse::<usize>().unwrap()];
        assert_eq!(str::from_utf8(publish.payload), Ok(next.to_string().as_str()));
        *next += 1;
        let ack = Packet::PubAck(Ack::success(publish.delivery.id().unwrap()));
        assert!(wire.send(&ack).await.is_ok());
    }
}

/// Publishes all messages with QoS 1.
async fn publish(net: Net, publisher: usize, (ready, receivers): (Rc<Cell<usize>>, usize)) {
    until(|| ready.get() == receivers).await;
    let mut wire = Wire::connect_at(&net, &format!("publisher {publisher}"), address()).await;
    let id = |number: usize| PacketId::new(number as u16 + 1).unwrap();
    let (topic, mut sent, mut acknowledged) = (format!("from/{publisher}"), 0, 0);
    while acknowledged < MESSAGES {
        if sent < MESSAGES && sent - acknowledged < WINDOW && net.draw(2) == 0 {
            let payload = sent.to_string();
            let message = Packet::Publish(Publish {
                topic: &topic,
                payload: payload.as_bytes(),
                delivery: Delivery::AtLeastOnce(id(sent)),
                retain: false,
                duplicate: false,
                properties: Properties::NONE,
            });
            assert!(wire.send(&message).await.is_ok());
            sent += 1;
        } else if acknowledged < sent {
            let came = wire.next().await.ok().expect("the connection stays open");
            let Packet::PubAck(ack) = came.packet() else { panic!("{:?}", came.packet()) };
            assert!(ack.id == id(acknowledged) && !ack.reason.is_failure(), "{ack:?}");
            acknowledged += 1;
        }
    }
}

#[test]
fn publishers_join_their_receivers() {
    for receivers in [1, PUBLISHERS] {
        let joined = Rc::new(Cell::new(0));
        for seed in 0..20 {
            sim::run(seed, |world| {
                world.set_processors(2);
                world.set_faults(Faults::NONE);
                add_clients(world, receivers, joined.clone());
            });
        }
        assert!(joined.get() > 0, "{receivers} receivers");
    }
}

#[test]
fn each_message_arrives_once_and_in_order_while_publishers_join_their_receiver() {
    sim::explore(60, world);
}
