//! A message is sent only to nodes with a matching subscription: none is sent in vain.

use std::time::Duration;

use phalanx::sim::{self, Net, World};
use phalanx_mqtt::{Delivery, Packet, PacketId, Properties, Publish};

use crate::simulation::clustered::{TIMEOUT, start_brokers};
use crate::simulation::subscriber::subscribe_to;
use crate::simulation::wire::{NODES, Wire};

/// The number of filters of each node, and of published messages.
const FILTERS: usize = 100;
const MESSAGES: usize = 200;

/// The number of different levels. About half of the topics match a filter of a node.
const LEVELS: u64 = 12;

fn world(world: &mut World) {
    world.set_max_steps(4_000_000);
    let (_model, brokers) = start_brokers(world, &["a", "b", "c"]);
    let net = world.net();
    world.client(async move {
        // By then the nodes have lanes.
        net.sleep(2 * TIMEOUT).await;
        let (mut subscribers, mut want_all) = (Vec::new(), true);
        for (name, node) in ["b", "c"].into_iter().zip(&NODES[1..]) {
            let mut own = Wire::connect_at(&net, name, *node).await;
            let mut wants_all = false;
            for _ in 0..FILTERS {
                let filter = filter(&net);
                wants_all |= matches_all(&filter);
                subscribe_to(&mut own, &[&filter]).await;
            }
            want_all &= wants_all;
            subscribers.push(own);
        }
        let mut publisher = Wire::connect_at(&net, "publisher", NODES[0]).await;
        let before = brokers[0].delivered_messages();
        for _ in 0..MESSAGES {
            let topic = (0..3).map(|_| level(&net)).collect::<Vec<_>>().join("/");
            // With QoS 0 the subscribers need not answer.
            publish(&mut publisher, &topic, Delivery::AtMostOnce).await;
        }
        // The acknowledgement follows the routing of the earlier messages.
        publish(&mut publisher, "nobody", Delivery::AtLeastOnce(PacketId::MIN)).await;
        let Ok(received) = publisher.next().await else { panic!("the connection is lost") };
        assert!(matches!(received.packet(), Packet::PubAck(_)), "{:?}", received.packet());
        let mut wanted = 0;
        for subscriber in &mut subscribers {
            let is_message = |packet: &Packet<'_>| assert!(matches!(packet, Packet::Publish(_)));
            wanted += subscriber.count(&net, Duration::from_secs(60), is_message).await as u64;
        }
        let sent = brokers[0].delivered_messages() - before;
        let is_some = want_all || wanted < 2 * MESSAGES as u64;
        assert!(wanted > 0 && is_some, "{wanted} of {MESSAGES} messages");
        assert_eq!(sent, wanted, "messages sent in vain");
        net.drain();
    });
}

fn level(net: &Net) -> String {
    net.draw(LEVELS).to_string()
}

/// A filter of three levels, perhaps with wildcards.
fn filter(net: &Net) -> String {
    let levels = (0..3).map(|place| match (place, net.draw(10)) {
        (_, 0) => "+".to_owned(),
        (2, 1) => "#".to_owned(),
        _ => level(net),
    });
    levels.collect::<Vec<_>>().join("/")
}

/// Whether the filter consists of wildcards only, so that it matches every message.
fn matches_all(filter: &str) -> bool {
    filter.chars().all(|character| "+#/".contains(character))
}

/// Publishes a message.
async fn publish(wire: &mut Wire, topic: &str, delivery: Delivery) {
    let (payload, properties, retain, duplicate) = (&b""[..], Properties::NONE, false, false);
    let own = Publish { topic, payload, delivery, retain, duplicate, properties };
    assert!(wire.send(&Packet::Publish(own)).await.is_ok());
}

#[test]
fn messages_are_sent_only_to_nodes_that_want_them() {
    sim::explore(4, world);
}
