//! A node whose journal is full.

use phalanx_mqtt::{QoS, Reason};
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::{Client, ConnectOptions};
use phalanx_testkit::nats::NatsServer;

use super::{await_lanes, node_config};
use crate::bridges::{Node, fill, receive_all};

/// The publisher's node has already acknowledged the messages.
#[test]
fn messages_wait_while_the_subscribers_node_cannot_store_them() {
    let Some(nats) = NatsServer::start("") else { return };
    let home = tempfile::tempdir().unwrap();
    let mut small = node_config(&nats, "b");
    small.persistence_dir = Some(home.path().into());
    small.limits.persistence_bytes = 200_000;
    let nodes = [Node::start(node_config(&nats, "a")), Node::start(small)];
    await_lanes(&nodes);
    let begin = ConnectOptions::persistent("subscriber");
    let (mut subscriber, _) = Client::connect_with(nodes[1].address, &begin);
    subscriber.subscribe("t", QoS::AtLeastOnce);
    drop(subscriber);
    fill(nodes[0].address, nodes[1].address);
    receive_all(&mut Client::connect_with(nodes[1].address, &begin).0);
    let mut publisher = Client::new(nodes[1].address, "later");
    eventually("there is room again", || {
        (publisher.publish("t", "") == Reason::SUCCESS).then_some(())
    });
}
