//! A shared subscription over three nodes: each gets messages in proportion to its members that are online.

use std::time::Duration;

use phalanx::sim::{self, Net, World};
use phalanx::{Graph, select};
use phalanx_broker::Broker;
use phalanx_mqtt::{Delivery, Packet, Properties, Publish};
use phalanx_nats::ModelServer;

use crate::simulation::clustered::{nats, node};
use crate::simulation::subscriber::subscribe_to;
use crate::simulation::wire::{NODES, Wire};

/// The timeout of the nodes, of which their intervals are parts.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(3600);

/// A client with a kept session that has joined the group at a node.
async fn member(net: &Net, name: &str, node: usize) -> Wire {
    let mut wire = Wire::connect_at(net, name, NODES[node]).await;
    subscribe_to(&mut wire, &["$share/g/t"]).await;
    wire
}

/// Publishes messages at the first node. Returns the number that each of the members has received.
async fn shares(net: &Net, members: &mut [&mut Wire], count: usize) -> Vec<usize> {
    let mut publisher = Wire::connect_at(net, "publisher", NODES[0]).await;
    for _ in 0..count {
        let (topic, payload, delivery) = ("t", &b""[..], Delivery::AtMostOnce);
        let (retain, duplicate, properties) = (false, false, Properties::NONE);
        let own = Publish { topic, payload, delivery, retain, duplicate, properties };
        assert!(publisher.say(&Packet::Publish(own)).await.is_ok());
    }
    let mut received = Vec::new();
    for member in members {
        let mut own = 0;
        while let phalanx::task::Either::Left(came) =
            select(Box::pin(member.next()), net.sleep(TIMEOUT / 10)).await
        {
            let Ok(came) = came else { panic!("a member lost its connection") };
            assert!(matches!(came.packet(), Packet::Publish(_)));
            own += 1;
        }
        received.push(own);
    }
    received
}

/// Starts three nodes over a network that does not fail. They have lanes after two timeouts.
pub(crate) fn start_nodes(world: &mut World) {
    world.set_processors(1);
    world.set_steady();
    let mut graph = Graph::new();
    let brokers = ["a", "b", "c"].map(|name| Broker::declare(&mut graph, &node(world, name)));
    let stage = graph.stage("nats").shared(());
    let listeners = NODES.map(|own| world.listen(own));
    let (of_nats, model) = (world.listen(nats()), ModelServer::default());
    world.program(graph, move |start| {
        let (own, listener) = (model.clone(), of_nats.listener(start)?);
        stage.dispatch(move |_| own.accept(listener, stage))?;
        for (broker, listeners) in brokers.iter().zip(&listeners) {
            broker.begin(start);
            broker.accept(listeners.listener(start)?)?;
        }
        Ok(())
    });
}

fn world(world: &mut World) {
    start_nodes(world);
    let net = world.net();
    world.client(async move {
        net.sleep(2 * TIMEOUT).await;
        // The publisher's node has a member that is not there.
        member(&net, "away", 0).await.reset();
        let (mut b1, mut b2) = (member(&net, "b1", 1).await, member(&net, "b2", 1).await);
        let (mut b3, mut c) = (member(&net, "b3", 1).await, member(&net, "c", 2).await);
        net.sleep(TIMEOUT).await;
        let mut all = [&mut b1, &mut b2, &mut b3, &mut c];
        assert_eq!(shares(&net, &mut all, 40).await, [10; 4]);
        // All members of a node leave, and stay subscribed.
        [b1, b2, b3].into_iter().for_each(Wire::reset);
        net.sleep(TIMEOUT).await;
        assert_eq!(shares(&net, &mut [&mut c], 8).await, [8]);
        // One is back, and the publisher's node has two.
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
