//! A node of a cluster is stopped while another one has messages for it. Publishers of QoS 1 wait until the node resumes
//! or is lost, but only if it wants their messages.

use std::time::Duration;

use phalanx::Graph;
use phalanx::sim::{self, Net, Program, World};
use phalanx_broker::Broker;
use phalanx_mqtt::{Delivery, Packet, PacketId, Properties, Publish, Reason};
use phalanx_nats::ModelServer;

use crate::simulation::clustered::{TIMEOUT, nats, node};
use crate::simulation::subscriber::subscribe_to;
use crate::simulation::wire::{NODES, Wire};

/// Maximum numbers of messages in flight to a node, and in the queue for it.
const IN_FLIGHT: usize = 4;
const QUEUED: usize = 8;

/// Messages that are published while the node is stopped.
const MESSAGES: usize = 60;

/// Sends a message with this number.
async fn publish(wire: &mut Wire, topic: &str, number: usize, is_awaited: bool) {
    let payload = number.to_string();
    let delivery = match PacketId::new(1 + number as u16).filter(|_| is_awaited) {
        Some(id) => Delivery::AtLeastOnce(id),
        None => Delivery::AtMostOnce,
    };
    let (retain, duplicate, properties) = (false, false, Properties::NONE);
    let payload = payload.as_bytes();
    let own = Publish { topic, payload, delivery, retain, duplicate, properties };
    assert!(wire.send(&Packet::Publish(own)).await.is_ok());
}

/// Counts acknowledgements until none arrives for this time.
async fn acknowledged(net: &Net, wire: &mut Wire, time: Duration) -> usize {
    wire.count(net, time, |received| {
        let Packet::PubAck(ack) = received else { panic!("{received:?}") };
        assert!(matches!(ack.reason, Reason::SUCCESS | Reason::NO_MATCHING_SUBSCRIBERS));
    })
    .await
}

/// Publishes messages one by one, without waiting for acknowledgements.
async fn publish_all(net: &Net, wire: &mut Wire, numbers: std::ops::Range<usize>) {
    for number in numbers {
        publish(wire, "there", number, true).await;
        // A pause, so that the broker does not read several messages at once and route them together.
        net.sleep(Duration::from_secs(1)).await;
    }
}

async fn run(net: Net, broker: Broker, there: Program) {
    let minute = Duration::from_secs(60);
    let full = || broker.dropped().find(|(reason, _)| *reason == "queue_full").expect("a reason").1;
    net.sleep(2 * TIMEOUT).await;
    let mut subscriber = Wire::connect_at(&net, "subscriber", NODES[1]).await;
    subscribe_to(&mut subscriber, &["there"]).await;
    let mut publisher = Wire::connect_at(&net, "publisher", NODES[0]).await;
    let mut other = Wire::connect_at(&net, "other", NODES[0]).await;
    there.stop();
    publish_all(&net, &mut publisher, 0..MESSAGES).await;
    assert_eq!(acknowledged(&net, &mut publisher, minute).await, IN_FLIGHT + QUEUED);
    // A publisher does not wait if the node does not want its messages.
    publish(&mut other, "here", 0, true).await;
    assert_eq!(acknowledged(&net, &mut other, minute).await, 1);
    assert_eq!(full(), 0);
    publish(&mut other, "there", 0, false).await;
    net.sleep(minute).await;
    assert_eq!(full(), 1, "QoS 0 is dropped");
    there.resume();
    for number in 0..MESSAGES {
        let Ok(received) = subscriber.next().await else { panic!("the connection is lost") };
        let Packet::Publish(own) = received.packet() else { panic!("{:?}", received.packet()) };
        assert_eq!(own.payload, number.to_string().as_bytes());
        if let Delivery::AtLeastOnce(id) = own.delivery {
            assert!(subscriber.send(&Packet::PubAck(phalanx_mqtt::Ack::success(id))).await.is_ok());
        }
    }
    let left = MESSAGES - IN_FLIGHT - QUEUED;
    assert_eq!(acknowledged(&net, &mut publisher, minute).await, left);
    assert_eq!(full(), 1);
    // Publishers do not wait for a node that is lost.
    there.stop();
    publish_all(&net, &mut publisher, 0..MESSAGES).await;
    let mut count = acknowledged(&net, &mut publisher, minute).await;
    assert!(count < MESSAGES);
    net.sleep(2 * TIMEOUT).await;
    count += acknowledged(&net, &mut publisher, minute).await;
    assert_eq!(count, MESSAGES);
    assert!(full() > 1);
    there.resume();
    net.drain();
}

/// At each of two nodes, publishers wait for the other node.
async fn run_both(net: Net, _: Broker, there: Program) {
    net.sleep(2 * TIMEOUT).await;
    let mut wires = Vec::new();
    for (at, wanted, other) in [(0, "here", "there"), (1, "there", "here")] {
        // The subscribers read nothing.
        let mut subscriber = Wire::connect_at(&net, &format!("for {wanted}"), NODES[at]).await;
        subscribe_to(&mut subscriber, &[wanted]).await;
        let publisher = Wire::connect_at(&net, &format!("to {other}"), NODES[at]).await;
        wires.push((publisher, other, subscriber));
    }
    let begun = net.now();
    // The queue of the first node is full before both publish.
    there.stop();
    for number in 0..2 * MESSAGES {
        if number == MESSAGES {
            net.sleep(Duration::from_secs(60)).await;
            there.resume();
        }
        for (publisher, topic, _) in &mut wires {
            publish(publisher, topic, number, true).await;
        }
        net.sleep(Duration::from_millis(net.draw(50))).await;
    }
    for (publisher, ..) in &mut wires {
        let count = acknowledged(&net, publisher, Duration::from_secs(60)).await;
        assert_eq!(count, 2 * MESSAGES);
    }
    assert!(net.now() - begun < TIMEOUT, "they waited for their limit");
    net.drain();
}

fn world(world: &mut World) {
    let (a, there) = start(world, &["a"]);
    world.client(run(world.net(), a, there));
}

fn world_of_both(world: &mut World) {
    let (a, there) = start(world, &["a", "b"]);
    world.client(run_both(world.net(), a, there));
}

/// Starts two nodes; those in `short` have short queues. Returns the first node, and the program of the second one.
fn start(world: &mut World, short: &'static [&str]) -> (Broker, Program) {
    world.set_processors(1);
    world.set_max_steps(1_000_000);
    world.advance_only_when_idle();
    let config = |world: &World, name: &str| {
        let mut own = node(world, name);
        own.limits.receive_maximum = IN_FLIGHT as u16;
        if short.contains(&name) {
            own.limits.queued_messages = QUEUED;
        }
        own
    };
    let (mut here, mut there) = (Graph::new(), Graph::new());
    let a = Broker::declare(&mut here, &config(world, "a"));
    let b = Broker::declare(&mut there, &config(world, "b"));
    let stage = here.stage("nats").shared(());
    let (listener, of_nats) = (world.listen(NODES[0]), world.listen(nats()));
    let (begun, model) = (a.clone(), ModelServer::default());
    world.program(here, move |start| {
        let (own, of_nats) = (model.clone(), of_nats.listener(start)?);
        stage.dispatch(move |_| own.accept(of_nats, stage))?;
        begun.begin(start);
        Ok(begun.accept(listener.listener(start)?)?)
    });
    let net = world.net();
    let listener = net.listen(NODES[1], 1);
    let there = net.start(1, there, move |start| {
        b.begin(start);
        Ok(b.accept(listener.listener(start)?)?)
    });
    (a, there)
}

#[test]
fn publishers_wait_for_a_slow_node() {
    sim::explore(3, world);
}

#[test]
fn two_nodes_do_not_wait_for_each_other() {
    sim::explore(3, world_of_both);
}
