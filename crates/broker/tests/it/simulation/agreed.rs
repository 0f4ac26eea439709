//! Clients of three nodes retain and delete messages of the same topics while connections to NATS break. When the
//! connections last, all nodes have the same messages, even those of QoS 0.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use phalanx::select;
use phalanx::sim::{self, Net, World};
use phalanx::task::Either;
use phalanx_mqtt::{
    Ack, Delivery, Packet, PacketId, Properties, Property, PropertyBuffer, Publish,
};
use phalanx_nats::Passage;

use crate::simulation::clustered::{TIMEOUT, start_brokers, start_with};
use crate::simulation::subscriber::send_subscribe;
use crate::simulation::wire::{NODES, Wire};

/// The number of messages, and of topics with one publisher at a time. Another topic has several.
const MESSAGES: u64 = 40;
const TOPICS: u64 = 4;
const CONTESTED: &str = "r/contested";

/// The time after which a reader has all messages.
const PAUSE: Duration = Duration::from_secs(60);

/// The retained message of each topic that has one.
type Retained = BTreeMap<String, String>;

fn world(world: &mut World) {
    world.set_max_steps(8_000_000);
    let (model, _brokers) = start_brokers(world, &["a", "b", "c"]);
    let net = world.net();
    world.client(async move {
        // By then the nodes have lanes.
        net.sleep(2 * TIMEOUT).await;
        let mut publishers = Vec::new();
        for (node, name) in NODES.into_iter().zip(["p/a", "p/b", "p/c"]) {
            publishers.push(Wire::connect_at(&net, name, node).await);
        }
        let mut expected = Retained::new();
        for number in 0..MESSAGES {
            match net.draw(8) {
                0 => _ = model.cut(),
                1 => model.set(Passage::Closed),
                2 | 3 => model.set(Passage::Open),
                _ => (),
            }
            let topic = format!("r/{}", net.draw(TOPICS));
            let payload = if net.draw(3) == 0 { String::new() } else { number.to_string() };
            let publisher = &mut publishers[net.draw(3) as usize];
            retain(publisher, &topic, &payload, net.draw(2) == 0).await;
            acknowledged(publisher).await;
            expected.insert(topic, payload);
            if net.draw(4) == 0 {
                for (node, publisher) in publishers.iter_mut().enumerate() {
                    let payload = if net.draw(3) == 0 { "" } else { ["a", "b", "c"][node] };
                    retain(publisher, CONTESTED, payload, net.draw(2) == 0).await;
                }
                for publisher in &mut publishers {
                    acknowledged(publisher).await;
                }
            }
            net.sleep(Duration::from_millis(1 + net.draw(60_000))).await;
        }
        model.set(Passage::Open);
        // The lanes are replaced, and send what their nodes lack.
        net.sleep(TIMEOUT / 2).await;
        expected.retain(|_, payload| !payload.is_empty());
        let mut contested = Vec::new();
        for node in NODES {
            let mut found = retained(&net, node).await;
            contested.push(found.remove(CONTESTED));
            assert_eq!(found, expected, "at {node}");
        }
        assert!(contested.iter().all(|value| *value == contested[0]), "{contested:?}");
        net.drain();
    });
}

/// Retains or deletes a message with QoS 1 or 0. A message that nobody wants follows a message of QoS 0, so that an
/// acknowledgement shows that it was routed.
async fn retain(wire: &mut Wire, topic: &str, payload: &str, is_acknowledged: bool) {
    let publish = |topic, payload, retain, delivery| {
        let (duplicate, properties) = (false, Properties::NONE);
        Packet::Publish(Publish { topic, payload, delivery, retain, duplicate, properties })
    };
    let (payload, acknowledged) = (payload.as_bytes(), Delivery::AtLeastOnce(PacketId::MIN));
    let sent = match is_acknowledged {
        true => wire.send(&publish(topic, payload, true, acknowledged)).await,
        false => {
            let message = publish(topic, payload, true, Delivery::AtMostOnce);
            wire.send_all(&[message, publish("nobody", &[], false, acknowledged)]).await
        }
    };
    assert!(sent.is_ok(), "the connection is lost");
}

/// Waits for an acknowledgement.
async fn acknowledged(wire: &mut Wire) {
    let Ok(received) = wire.next().await else { panic!("the connection is lost") };
    assert!(matches!(received.packet(), Packet::PubAck(_)), "{:?}", received.packet());
}

/// The retained messages of a node.
async fn retained(net: &Net, node: SocketAddr) -> Retained {
    let mut wire = Wire::connect_at(net, &format!("reader of {node}"), node).await;
    assert!(send_subscribe(&mut wire, &["r/#"]).await.is_ok());
    let mut found = Retained::new();
    while let Either::Left(received) = select(Box::pin(wire.next()), net.sleep(PAUSE)).await {
        let Ok(received) = received else { panic!("the connection is lost") };
        let Packet::Publish(message) = received.packet() else { continue };
        let payload = String::from_utf8(message.payload.to_vec()).unwrap();
        found.insert(message.topic.to_owned(), payload);
        if let Some(id) = message.delivery.id() {
            assert!(wire.send(&Packet::PubAck(Ack::success(id))).await.is_ok());
        }
    }
    found
}

/// Maximum size of packets, in bytes, in the second simulation.
const MAX_PACKET: usize = 4096;

/// A client publishes a message that only its short topic alias makes fit.
fn with_long_message(world: &mut World) {
    let (model, _brokers) =
        start_with(world, &["a", "b"], |config| config.limits.packet_size = MAX_PACKET);
    let net = world.net();
    world.client(async move {
        net.sleep(2 * TIMEOUT).await;
        let mut publisher = Wire::connect_at(&net, "publisher", NODES[0]).await;
        let topic = format!("r/{}", "long".repeat(250));
        for (topic, length) in [(&*topic, 10), ("", MAX_PACKET - 30)] {
            let mut properties = PropertyBuffer::new();
            properties.push(Property::TopicAlias(1)).unwrap();
            let (payload, properties) = (&vec![b'x'; length][..], properties.get());
            let delivery = Delivery::AtLeastOnce(PacketId::MIN);
            let (retain, duplicate) = (true, false);
            let own = Publish { topic, payload, delivery, retain, duplicate, properties };
            assert!(publisher.send(&Packet::Publish(own)).await.is_ok());
            acknowledged(&mut publisher).await;
        }
        model.set(Passage::Closed);
        net.sleep(TIMEOUT / 10).await;
        retain(&mut publisher, "r/other", "1", false).await;
        acknowledged(&mut publisher).await;
        model.set(Passage::Open);
        net.sleep(TIMEOUT / 2).await;
        // The first message of the long topic may be there.
        let found = retained(&net, NODES[1]).await;
        assert_eq!(found.get("r/other").map(|value| &**value), Some("1"), "after the long message");
        net.drain();
    });
}

#[test]
fn a_message_too_long_for_lanes_does_not_stop_them() {
    sim::explore(2, with_long_message);
}

/// Messages that a client publishes while the nodes connect.
const EARLY: usize = 1000;

/// A client publishes before there is a lane, while it begins, and afterwards.
fn while_nodes_connect(world: &mut World) {
    world.set_max_steps(8_000_000);
    let soon = Duration::from_secs(20);
    let (_model, _brokers) = start_with(world, &["a", "b"], |config| config.cluster.timeout = soon);
    let net = world.net();
    world.client(async move {
        let mut publisher = Wire::connect_at(&net, "publisher", NODES[0]).await;
        for number in 0..EARLY {
            retain(&mut publisher, &format!("r/{number}"), "1", number % 2 == 0).await;
            acknowledged(&mut publisher).await;
            net.sleep(Duration::from_millis(net.draw(10))).await;
        }
        net.sleep(PAUSE).await;
        assert_eq!(retained(&net, NODES[1]).await.len(), EARLY);
        net.drain();
    });
}

#[test]
fn a_node_that_connects_misses_no_retained_message() {
    sim::explore(8, while_nodes_connect);
}

#[test]
fn nodes_agree_on_retained_messages() {
    sim::explore(8, world);
}
