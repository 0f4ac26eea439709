//! A shared subscription over three nodes. Each node gets messages in proportion to its online members.

use phalanx::sim::{self, Net, World};
use phalanx_mqtt::{Delivery, Packet, Properties, Publish};

use crate::simulation::clustered::{TIMEOUT, start_nodes};
use crate::simulation::subscriber::subscribe_to;
use crate::simulation::wire::{NODES, Wire};

/// A client with a kept session that has joined the group at a node.
async fn member(net: &Net, name: &str, node: usize) -> Wire {
    let mut wire = Wire::connect_at(net, name, NODES[node]).await;
    subscribe_to(&mut wire, &["$share/g/t"]).await;
    wire
}

/// Publishes messages at the first node. Returns the number of messages that each member has received.
async fn shares(net: &Net, members: &mut [&mut Wire], count: usize) -> Vec<usize> {
    let mut publisher = Wire::connect_at(net, "publisher", NODES[0]).await;
    for _ in 0..count {
        let (topic, payload, delivery) = ("t", &b""[..], Delivery::AtMostOnce);
        let (retain, duplicate, properties) = (false, false, Properties::NONE);
        let own = Publish { topic, payload, delivery, retain, duplicate, properties };
        assert!(publisher.send(&Packet::Publish(own)).await.is_ok());
    }
    let mut received = Vec::new();
    for member in members {
        let check = |received: &Packet<'_>| assert!(matches!(received, Packet::Publish(_)));
        received.push(member.count(net, TIMEOUT / 10, check).await);
    }
    received
}

fn world(world: &mut World) {
    start_nodes(world, &["a", "b", "c"]);
    let net = world.net();
    world.client(async move {
        net.sleep(2 * TIMEOUT).await;
        // The publisher's node has a member that is offline.
        member(&net, "away", 0).await.reset();
        let (mut b1, mut b2) = (member(&net, "b1", 1).await, member(&net, "b2", 1).await);
        let (mut b3, mut c) = (member(&net, "b3", 1).await, member(&net, "c", 2).await);
        net.sleep(TIMEOUT).await;
        let mut all = [&mut b1, &mut b2, &mut b3, &mut c];
        assert_eq!(shares(&net, &mut all, 40).await, [10; 4]);
        // All members of a node disconnect, but stay subscribed.
        [b1, b2, b3].into_iter().for_each(Wire::reset);
        net.sleep(TIMEOUT).await;
        assert_eq!(shares(&net, &mut [&mut c], 8).await, [8]);
        // One of them returns, and the publisher's node now has two online members.
        let mut b1 = Wire::connect_at(&net, "b1", NODES[1]).await;
        let mut away = Wire::connect_at(&net, "away", NODES[0]).await;
        let mut a = member(&net, "a", 0).await;
        net.sleep(TIMEOUT).await;
        let mut all = [&mut away, &mut a, &mut b1, &mut c];
        assert_eq!(shares(&net, &mut all, 40).await, [10; 4]);
        net.drain();
    });
}

#[test]
fn nodes_get_shares_of_their_members() {
    sim::explore(3, world);
}
