//! Conditions of subscriptions at another node of a cluster. The publisher's node tests them, up to a bound and in any
//! form, until they end.

use phalanx::sim::{self, Net, World};
use phalanx_mqtt::{
    Delivery, Packet, PacketId, Property, PropertyBuffer, Publish, QoS, Reason, Subscribe,
    SubscribeOptions, SubscriptionBuffer, Unsubscribe,
};

use crate::simulation::clustered::{TIMEOUT, start_nodes};
use crate::simulation::wire::{NODES, Wire};

/// More conditions that an index does not decide than one topic filter may announce.
const CONDITIONS: usize = 100;

/// Adds or ends a subscription with a condition in a user property, and waits for the answer.
async fn change(wire: &mut Wire, condition: &str, is_added: bool) {
    let (mut filters, mut properties) = (SubscriptionBuffer::new(), PropertyBuffer::new());
    let options = SubscribeOptions { qos: QoS::AtMostOnce, ..SubscribeOptions::default() };
    filters.push("t", options).unwrap();
    properties.push(Property::User("$where", condition)).unwrap();
    let (id, properties) = (PacketId::MIN, properties.get());
    let packet = match is_added {
        true => Packet::Subscribe(Subscribe { id, filters: filters.to_subscribe(), properties }),
        false => {
            Packet::Unsubscribe(Unsubscribe { id, filters: filters.to_unsubscribe(), properties })
        }
    };
    assert!(wire.send(&packet).await.is_ok());
    let Ok(received) = wire.next().await else { panic!("the connection is lost") };
    let reasons = match received.packet() {
        Packet::SubAck(ack) => ack.reasons,
        Packet::UnsubAck(ack) => ack.reasons,
        packet => panic!("{packet:?}"),
    };
    assert_eq!(reasons, [Reason::SUCCESS.0]);
}

/// Whether the publisher's node finds a receiver of a message with this property.
async fn is_wanted(publisher: &mut Wire, value: &str) -> bool {
    let mut properties = PropertyBuffer::new();
    properties.push(Property::User("k", value)).unwrap();
    let (topic, payload, retain, duplicate) = ("t", &b""[..], false, false);
    let delivery = Delivery::AtLeastOnce(PacketId::MIN);
    let properties = properties.get();
    let own = Publish { topic, payload, delivery, retain, duplicate, properties };
    assert!(publisher.send(&Packet::Publish(own)).await.is_ok());
    let Ok(received) = publisher.next().await else { panic!("the connection is lost") };
    let Packet::PubAck(ack) = received.packet() else { panic!("{:?}", received.packet()) };
    assert!([Reason::SUCCESS, Reason::NO_MATCHING_SUBSCRIBERS].contains(&ack.reason));
    ack.reason == Reason::SUCCESS
}

async fn run(net: Net) {
    net.sleep(2 * TIMEOUT).await;
    let mut publisher = Wire::connect_at(&net, "publisher", NODES[0]).await;
    let mut subscriber = Wire::connect_at(&net, "subscriber", NODES[1]).await;
    let condition = |n: usize| format!("k = 'v{n}'");
    for n in 0..CONDITIONS {
        change(&mut subscriber, &condition(n), true).await;
    }
    for n in [0, CONDITIONS - 1] {
        assert!(is_wanted(&mut publisher, &format!("v{n}")).await, "{n}");
        let Ok(received) = subscriber.next().await else { panic!("the connection is lost") };
        assert!(matches!(received.packet(), Packet::Publish(_)));
    }
    assert!(!is_wanted(&mut publisher, "other").await, "a node gets what nobody wants");
    change(&mut subscriber, &condition(0), false).await;
    // UNSUBACK does not wait for other nodes.
    net.sleep(TIMEOUT).await;
    assert!(!is_wanted(&mut publisher, "v0").await, "an ended condition remains");
    // The publisher's node evaluates a condition that an index does not decide.
    change(&mut subscriber, "k LIKE '%x'", true).await;
    assert!(is_wanted(&mut publisher, "yx").await && !is_wanted(&mut publisher, "xy").await);
    net.drain();
}

fn world(world: &mut World) {
    world.set_max_steps(1_000_000);
    start_nodes(world, &["a", "b", "c"]);
    world.client(run(world.net()));
}

#[test]
fn conditions_are_tested_by_the_publishers_node() {
    sim::explore(2, world);
}
