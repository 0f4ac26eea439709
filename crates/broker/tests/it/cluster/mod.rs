//! Clusters of brokers in this process, over a real NATS server.

mod full;
mod lanes;
mod sessions;

use std::time::Duration;

use phalanx_broker::{Config, NatsServer as Url};
use phalanx_mqtt::{QoS, Reason};
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::Client;
use phalanx_testkit::nats::NatsServer;

use crate::bridges::{Node, any, config};

/// The configuration of a node.
fn node_config(nats: &NatsServer, name: &str) -> Config {
    let mut own = config(any(), Vec::new());
    own.cluster.servers = vec![nats.url().parse::<Url>().unwrap()];
    own.cluster.node = name.to_owned();
    // Long, because a busy machine may delay a node.
    own.cluster.timeout = Duration::from_secs(15);
    own
}

/// Starts nodes with these names, and waits until all have lanes to each other. `None` without a NATS server.
fn cluster(names: &[&str]) -> Option<(NatsServer, Vec<Node>)> {
    cluster_of(names, |_| ())
}

/// Like [`cluster`], with changed configurations.
fn cluster_of(names: &[&str], change: impl Fn(&mut Config)) -> Option<(NatsServer, Vec<Node>)> {
    let nats = NatsServer::start("")?;
    let start = |name: &&str| {
        let mut config = node_config(&nats, name);
        change(&mut config);
        Node::start(config)
    };
    let nodes: Vec<_> = names.iter().map(start).collect();
    await_lanes(&nodes);
    Some((nats, nodes))
}

/// Waits until each node has the filters of every other node.
fn await_lanes(nodes: &[Node]) {
    for (n, to) in nodes.iter().enumerate() {
        let topic = format!("lanes/{n}");
        let mut subscriber = Client::new(to.address, &format!("await-{n}"));
        subscriber.subscribe(&topic, QoS::AtMostOnce);
        for (m, from) in nodes.iter().enumerate().filter(|(m, _)| *m != n) {
            await_interest(from, &topic, &format!("await-{n}-{m}"));
        }
    }
}

/// Waits until a node has receivers for a topic.
fn await_interest(node: &Node, topic: &str, client: &str) {
    let mut publisher = Client::new(node.address, client);
    eventually("a message is wanted", || {
        (publisher.publish(topic, "") == Reason::SUCCESS).then_some(())
    });
}
