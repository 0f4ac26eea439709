//! Kept sessions that move to the node where their client connects.

use std::time::Instant;

use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, QoS, Reason};
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::Client;

use crate::broker::nodes::kept::{
    Nodes, Publisher, assert_reports, queue, receives_all, subscriber,
};
use crate::broker::process::Broker;

crate::on_one_driver!(a_session_follows_its_client, a_moved_session_survives_its_nodes);

/// Nodes that have lanes to each other.
fn connected(nodes: &Nodes) -> [Broker; 3] {
    let all = ["a", "b", "c"].map(|name| nodes.start(name));
    for (node, others) in all.iter().zip([["b", "c"], ["a", "c"], ["a", "b"]]) {
        others.iter().for_each(|other| assert_reports(node, &format!("node {other}: connected")));
    }
    all
}

fn a_session_follows_its_client(driver: &'static str) {
    let Some(nodes) = Nodes::new(driver) else { return };
    let all = connected(&nodes);
    let (mut client, is_present) = subscriber(&all[0]);
    assert!(!is_present);
    client.subscribe("of/+", QoS::ExactlyOnce);
    let mut publishers = ["a", "b", "c"].map(|name| Publisher::new(&all[0], name));
    for (publisher, node) in publishers.iter_mut().zip(&all) {
        publisher.client = Client::new(node, &publisher.topic);
    }
    let (mut inbox, mut times) = (Inbox::default(), Vec::new());
    for turn in 1..7 {
        publishers.iter_mut().for_each(Publisher::publish);
        // Some are in the queue, and some unfinished.
        let some = inbox.received.len() + 50;
        inbox.receive(&mut client, some);
        let start = Instant::now();
        let (next, is_present) = subscriber(&all[turn % 3]);
        times.push(start.elapsed());
        assert!(is_present);
        client = next;
    }
    times.sort_unstable();
    eprintln!("sessions moved after {times:?}");
    inbox.receive(&mut client, publishers.iter().map(|publisher| publisher.sent).sum());
    publishers.iter().for_each(|publisher| publisher.expect_message(&inbox.received, 0));
    // The earlier node disconnects its client.
    let (_next, _) = subscriber(&all[1]);
    assert_eq!(client.wait_for_close(), Some(Reason::SESSION_TAKEN_OVER));
}

/// QoS 2 messages of a client, over several connections: their topics and numbers.
#[derive(Default)]
struct Inbox {
    received: Vec<(String, usize)>,
    open: Vec<PacketId>,
}

impl Inbox {
    /// Receives until this number of messages has come.
    fn receive(&mut self, client: &mut Client, count: usize) {
        while self.received.len() < count {
            match client.next().packet() {
                Packet::Publish(publish) => {
                    let Delivery::ExactlyOnce(id) = publish.delivery else { panic!("{publish:?}") };
                    if !self.open.contains(&id) {
                        self.open.push(id);
                        let number = std::str::from_utf8(publish.payload).unwrap().parse().unwrap();
                        self.received.push((publish.topic.to_owned(), number));
                    }
                    client.send(&Packet::PubRec(Ack::success(id)));
                }
                Packet::PubRel(ack) => {
                    self.open.retain(|id| *id != ack.id);
                    client.send(&Packet::PubComp(Ack::success(ack.id)));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

fn a_moved_session_survives_its_nodes(driver: &'static str) {
    let Some(nodes) = Nodes::new(driver) else { return };
    let [first, second, third] = connected(&nodes);
    queue(&first);
    let (client, is_present) = subscriber(&second);
    assert!(is_present);
    client.disconnect();
    // It may be killed before it has ended its copy, which is adopted then, and ends.
    first.crashes();
    second.crashes();
    let second = nodes.start("b");
    assert_reports(&second, "node c: connected");
    let has_adopted = |node: &Broker| node.stderr().contains("sessions of node a in");
    eventually("adopted", || [&second, &third].into_iter().any(has_adopted).then_some(()));
    let (mut client, is_present) = subscriber(&third);
    assert!(is_present);
    receives_all(&mut client);
    client.expect_no_message();
}
