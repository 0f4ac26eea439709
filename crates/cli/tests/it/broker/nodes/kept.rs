//! Nodes that keep their sessions in NATS: another node adopts those of a killed one.

use std::path::Path;
use std::time::Instant;

use phalanx_mqtt::{Ack, Delivery, Packet, QoS, Reason, Version};
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::{Client, ConnectOptions, id};
use phalanx_testkit::nats::NatsServer;
use phalanx_testkit::process::Signal;
use phalanx_testkit::tcp::unique_loopback;
use tempfile::TempDir;

use crate::broker::process::Broker;

crate::on_one_driver!(
    a_killed_nodes_sessions_are_adopted,
    a_stopped_node_finds_that_its_sessions_were_adopted,
    a_node_that_returns_in_time_keeps_its_sessions,
    a_client_gets_its_session_or_is_refused,
    messages_of_other_nodes_reach_adopted_sessions,
    messages_for_other_nodes_survive_their_publishers_node
);

/// The exit code of a node whose sessions were adopted.
const ADOPTED: i32 = 75;

/// Nodes that keep their sessions.
pub(super) struct Nodes {
    driver: &'static str,
    timeout: &'static str,
    nats: NatsServer,
    data: TempDir,
}

impl Nodes {
    /// `None` without a NATS server.
    pub(super) fn new(driver: &'static str) -> Option<Self> {
        let (nats, data) = (NatsServer::start("")?, tempfile::tempdir().unwrap());
        Some(Self { driver, timeout: "8s", nats, data })
    }

    fn directory(&self, name: &str) -> std::path::PathBuf {
        self.data.path().join(name)
    }

    /// Starts a node, and waits until it lets clients in.
    pub(super) fn start(&self, name: &str) -> Broker {
        let (url, data) = (self.nats.url(), self.directory(name));
        let arguments = ["--node-name", name, "--cluster", &url, "--cluster-timeout", self.timeout];
        let stored = ["--persistence-dir", data.to_str().unwrap(), "--cluster-keep-sessions"];
        let address = (unique_loopback(), 0).into();
        let arguments = [&arguments[..], &stored].concat();
        let node = Broker::start_at_with(self.driver, address, &arguments);
        assert_reports(&node, "sessions are kept in NATS");
        node
    }
}

/// Waits until a node says this.
pub(super) fn assert_reports(node: &Broker, what: &str) {
    eventually(what, || node.stderr().contains(what).then_some(()));
}

/// Opens the kept session of the subscriber.
pub(super) fn subscriber(node: &Broker) -> (Client, bool) {
    Client::connect_with(node, &ConnectOptions::persistent("subscriber"))
}

/// A kept session with a subscription, and 100 messages in its queue that were acknowledged to their publisher.
pub(super) fn queue(node: &Broker) {
    let (mut client, is_present) = subscriber(node);
    assert!(!is_present);
    client.subscribe("t", QoS::AtLeastOnce);
    client.disconnect();
    let mut publisher = Client::new(node, "publisher");
    for n in 0..100 {
        assert_eq!(publisher.publish("t", &n.to_string()), Reason::SUCCESS);
    }
}

/// Receives the messages that [`queue`] published, in order.
pub(super) fn receives_all(client: &mut Client) {
    for n in 0..100 {
        let received = client.next();
        let message = received.message();
        assert_eq!(message.payload, n.to_string().as_bytes());
        client.acknowledge(&message);
    }
}

fn a_killed_nodes_sessions_are_adopted(driver: &'static str) {
    let Some(nodes) = Nodes::new(driver) else { return };
    let (first, mut second) = (nodes.start("a"), nodes.start("b"));
    queue(&first);
    let killed = Instant::now();
    first.crashes();
    assert_reports(&second, "adopted 1 sessions of node a");
    let (mut client, is_present) = subscriber(&second);
    eprintln!("usable after {:.1} s", killed.elapsed().as_secs_f64());
    assert!(is_present);
    receives_all(&mut client);
    // It is an ordinary session of the other node, whose journal has it.
    client.disconnect();
    second.ends_well();
    let second = nodes.start("b");
    let (mut client, is_present) = subscriber(&second);
    assert!(is_present);
    Client::new(&second, "publisher").publish("t", "last");
    client.expect_message("t", "last");
    // The killed node finds at its next start that it has no sessions, and starts empty after that.
    let mut returned = start_unready(&nodes, "a");
    assert_eq!(returned.exit().code(), Some(ADOPTED));
    let returned = nodes.start("a");
    assert!(nodes.directory("a").join("adopted-journal").exists());
    let (_, is_present) = Client::connect_with(&returned, &ConnectOptions::persistent("another"));
    assert!(!is_present);
}

/// Starts a node that will not let clients in.
fn start_unready(nodes: &Nodes, name: &str) -> Broker {
    let (url, data) = (nodes.nats.url(), nodes.directory(name));
    let data: &Path = &data;
    let arguments = [
        "--node-name",
        name,
        "--cluster",
        &url,
        "--cluster-keep-sessions",
        "--persistence-dir",
        data.to_str().unwrap(),
    ];
    Broker::start_at_with(nodes.driver, (unique_loopback(), 0).into(), &arguments)
}

fn a_stopped_node_finds_that_its_sessions_were_adopted(driver: &'static str) {
    let Some(nodes) = Nodes::new(driver) else { return };
    let (mut first, second) = (nodes.start("a"), nodes.start("b"));
    queue(&first);
    let (mut idle, _) = Client::connect_with(&first, &ConnectOptions::persistent("idle"));
    first.signal(Signal::STOP);
    assert_reports(&second, "adopted 2 sessions of node a");
    first.signal(Signal::CONT);
    assert_eq!(first.exit().code(), Some(ADOPTED));
    assert!(idle.wait_for_close().is_some_and(|reason| reason.is_failure()));
    let (mut client, is_present) = subscriber(&second);
    assert!(is_present);
    receives_all(&mut client);
}

fn a_node_that_returns_in_time_keeps_its_sessions(driver: &'static str) {
    let Some(nodes) = Nodes::new(driver) else { return };
    let mut nodes = Nodes { timeout: "14s", ..nodes };
    let (first, _second) = (nodes.start("a"), nodes.start("b"));
    queue(&first);
    first.crashes();
    let first = nodes.start("a");
    let (mut client, is_present) = subscriber(&first);
    assert!(is_present);
    receives_all(&mut client);
    // Nothing is acknowledged without NATS.
    let mut publisher = Client::new(&first, "publisher");
    nodes.nats.stop();
    let delivery = Delivery::AtLeastOnce(id(1));
    publisher.publish_with("t", "after", delivery, false, &[]);
    assert_reports(&first, "the journal waits for NATS");
    nodes.nats.restart();
    assert_eq!(publisher.expect_puback(), Reason::SUCCESS);
    client.expect_message("t", "after");
}

/// Connects the subscriber to continue its session. Returns the reason if it is refused.
fn try_subscriber(node: &Broker) -> Result<(Client, bool), Reason> {
    let mut client = Client::open(node, Version::V5);
    client.send_connect(&ConnectOptions::persistent("subscriber"));
    match client.next().packet() {
        Packet::ConnAck(ack) if ack.reason == Reason::SUCCESS => Ok((client, ack.session_present)),
        Packet::ConnAck(ack) => Err(ack.reason),
        other => panic!("expected a CONNACK, got {other:?}"),
    }
}

fn a_client_gets_its_session_or_is_refused(driver: &'static str) {
    let Some(nodes) = Nodes::new(driver) else { return };
    let [first, second, third] = ["a", "b", "c"].map(|name| nodes.start(name));
    queue(&first);
    // One with shared subscriptions stays.
    let (mut member, _) = Client::connect_with(&first, &ConnectOptions::persistent("member"));
    member.subscribe("$share/g/t", QoS::AtLeastOnce);
    let mut refused = Client::open(&second, Version::V5);
    refused.send_connect(&ConnectOptions::persistent("member"));
    match refused.next().packet() {
        Packet::ConnAck(ack) => assert_eq!(ack.reason, Reason::USE_ANOTHER_SERVER),
        other => panic!("expected a CONNACK, got {other:?}"),
    }
    // A client without a session gets one, and a clean session is begun anywhere.
    let (_, is_present) = Client::connect_with(&third, &ConnectOptions::persistent("another"));
    assert!(!is_present);
    Client::new(&third, "clean");
    first.crashes();
    let mut client =
        [&second, &third].into_iter().cycle().find_map(|node| match try_subscriber(node) {
            Ok((client, is_present)) => {
                assert!(is_present, "a new session was begun");
                Some(client)
            }
            Err(reason) => {
                let expected = [Reason::SERVER_UNAVAILABLE, Reason::USE_ANOTHER_SERVER];
                assert!(expected.contains(&reason), "{reason}");
                None
            }
        });
    receives_all(client.as_mut().unwrap());
}

/// A publisher at a node, which numbers its QoS 2 messages.
pub(super) struct Publisher {
    pub(super) client: Client,
    pub(super) topic: String,
    pub(super) sent: usize,
}

impl Publisher {
    pub(super) fn new(node: &Broker, name: &str) -> Self {
        Self { client: Client::new(node, name), topic: format!("of/{name}"), sent: 0 }
    }

    /// Publishes 40 messages, of which each is acknowledged.
    pub(super) fn publish(&mut self) {
        for _ in 0..40 {
            let (payload, number) = (self.sent.to_string(), id(1));
            let delivery = Delivery::ExactlyOnce(number);
            self.client.publish_with(&self.topic, &payload, delivery, false, &[]);
            match self.client.next().packet() {
                Packet::PubRec(ack) => assert_eq!(ack.reason, Reason::SUCCESS, "{payload}"),
                other => panic!("expected a PUBREC, got {other:?}"),
            }
            self.client.send(&Packet::PubRel(Ack::success(number)));
            assert!(matches!(self.client.next().packet(), Packet::PubComp(_)));
            self.sent += 1;
        }
    }

    /// The client receives all messages from number `first` on once, in order.
    pub(super) fn expect_message(&self, payloads: &[(String, usize)], first: usize) {
        let own =
            payloads.iter().filter(|(topic, _)| *topic == self.topic).map(|(_, number)| *number);
        assert!(own.eq(first..self.sent), "{}: {payloads:?}", self.topic);
    }
}

/// Receives QoS 2 messages: their topics and numbers.
fn receives_numbers(client: &mut Client, count: usize) -> Vec<(String, usize)> {
    let (mut all, mut released) = (Vec::new(), 0);
    while released < count {
        match client.next().packet() {
            Packet::Publish(publish) => {
                let number = std::str::from_utf8(publish.payload).unwrap().parse().unwrap();
                all.push((publish.topic.to_owned(), number));
                let Delivery::ExactlyOnce(id) = publish.delivery else { panic!("{publish:?}") };
                client.send(&Packet::PubRec(Ack::success(id)));
            }
            Packet::PubRel(ack) => {
                client.send(&Packet::PubComp(Ack::success(ack.id)));
                released += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    all
}

fn messages_of_other_nodes_reach_adopted_sessions(driver: &'static str) {
    let Some(nodes) = Nodes::new(driver) else { return };
    let [first, mut adopter, mut other] = ["a", "b", "c"].map(|name| nodes.start(name));
    [&adopter, &other].iter().for_each(|node| assert_reports(node, "node a: connected"));
    let (mut client, _) = subscriber(&first);
    client.subscribe("of/+", QoS::ExactlyOnce);
    client.disconnect();
    let mut at_adopter = Publisher::new(&adopter, "b");
    let mut at_other = Publisher::new(&other, "c");
    let mut publish = || {
        at_adopter.publish();
        at_other.publish();
    };
    publish();
    first.crashes();
    publish();
    eventually("the sessions are adopted", || {
        let mut both = [&adopter, &other].into_iter();
        both.any(|node| node.stderr().contains("adopted 1 sessions of node a")).then_some(())
    });
    publish();
    [&adopter, &other].iter().for_each(|node| assert_reports(node, "handed over"));
    publish();
    if other.stderr().contains("adopted 1 sessions of node a") {
        std::mem::swap(&mut adopter, &mut other);
        std::mem::swap(&mut at_adopter, &mut at_other);
    }
    let (mut client, is_present) = subscriber(&adopter);
    assert!(is_present);
    let received = receives_numbers(&mut client, at_adopter.sent + at_other.sent);
    at_adopter.expect_message(&received, 0);
    at_other.expect_message(&received, 0);
    client.expect_no_message();
    client.disconnect();
    // The adopting node is lost, too.
    let before = at_other.sent;
    adopter.crashes();
    at_other.publish();
    assert_reports(&other, "adopted 1 sessions of node");
    at_other.publish();
    let (mut client, is_present) = subscriber(&other);
    assert!(is_present);
    let received = receives_numbers(&mut client, at_other.sent - before);
    at_other.expect_message(&received, before);
    client.expect_no_message();
}

/// Waits until one of two nodes has adopted this number of sessions of node `a`.
fn await_adopted(nodes: [&Broker; 2], count: usize) {
    let line = format!("adopted {count} sessions of node a");
    eventually("the sessions are adopted", || {
        nodes.iter().any(|node| node.stderr().contains(&line)).then_some(())
    });
}

/// The messages exceed what may be on the way to a node, so some are still in the queue for it.
fn messages_for_other_nodes_survive_their_publishers_node(driver: &'static str) {
    let Some(nodes) = Nodes::new(driver) else { return };
    let [first, second, third] = ["a", "b", "c"].map(|name| nodes.start(name));
    [&second, &third].iter().for_each(|node| assert_reports(node, "node a: connected"));
    let (mut client, _) = subscriber(&second);
    client.subscribe("of/+", QoS::ExactlyOnce);
    client.disconnect();
    let mut observer = Client::new(&third, "observer");
    observer.subscribe("will", QoS::AtLeastOnce);
    let will = Some(("will", "gone", QoS::AtLeastOnce, false, Vec::new()));
    let (_willing, _) = Client::connect_with(
        &first,
        &ConnectOptions { will, ..ConnectOptions::persistent("willing") },
    );
    // A node that is stopped cannot say whether it has the session.
    let (mut publisher, _) = Client::connect_with(&first, &ConnectOptions::persistent("publisher"));
    second.signal(Signal::STOP);
    for n in 0..40 {
        let delivery = Delivery::ExactlyOnce(id(1));
        publisher.publish_with("of/a", &format!("{n:060000}"), delivery, false, &[]);
        assert!(matches!(publisher.next().packet(), Packet::PubRec(_)));
        publisher.send(&Packet::PubRel(Ack::success(id(1))));
        assert!(matches!(publisher.next().packet(), Packet::PubComp(_)));
    }
    publisher.publish_with("kept", "retained", Delivery::AtLeastOnce(id(2)), true, &[]);
    assert_eq!(publisher.expect_puback(), Reason::SUCCESS);
    first.crashes();
    second.signal(Signal::CONT);
    await_adopted([&second, &third], 2);
    observer.expect_message("will", "gone");
    let (mut client, is_present) = subscriber(&second);
    assert!(is_present);
    let received = receives_numbers(&mut client, 40);
    assert!(received.iter().map(|(_, number)| *number).eq(0..40), "{received:?}");
    client.expect_no_message();
    for node in [&second, &third] {
        eventually("the retained message", || {
            let mut reader = Client::new(node, "reader");
            reader.subscribe("kept", QoS::AtMostOnce);
            reader.subscribe("end", QoS::AtMostOnce);
            reader.publish_with("end", "", Delivery::AtMostOnce, false, &[]);
            let received = reader.next();
            (received.message().topic == "kept").then_some(())
        });
    }
}
