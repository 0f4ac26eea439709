//! A cluster of three processes over a real NATS server.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use phalanx_mqtt::{QoS, Reason};
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::{Client, ConnectOptions};
use phalanx_testkit::nats::NatsServer;
use phalanx_testkit::tcp::unique_loopback;
use tempfile::TempDir;

use crate::broker::process::Broker;
use crate::server::bare;

crate::on_each_driver!(
    a_killed_node_returns,
    a_rolling_restart_loses_nothing,
    credentials_are_reloaded,
    slow_credentials_do_not_delay_lanes
);

/// Nodes `a`, `b` and `c`.
struct Cluster {
    driver: &'static str,
    nats: NatsServer,
    data: TempDir,
    nodes: Vec<Broker>,
}

impl Cluster {
    /// Starts it, and waits until all nodes have lanes to each other. `None` without a NATS server.
    fn start(driver: &'static str) -> Option<Self> {
        let (nats, data) = (NatsServer::start("")?, tempfile::tempdir().unwrap());
        let mut own = Self { driver, nats, data, nodes: Vec::new() };
        own.nodes = (0..3).map(|n| own.node(n, (unique_loopback(), 0).into())).collect();
        for (n, to) in own.nodes.iter().enumerate() {
            let topic = format!("lanes/{n}");
            // Clients of the same identifier at several nodes would take each other's sessions over.
            let mut subscriber = Client::new(to, &format!("await {n}"));
            subscriber.subscribe(&topic, QoS::AtMostOnce);
            for from in own.nodes.iter().filter(|from| from.address != to.address) {
                let mut publisher = Client::new(from, &format!("from {} to {n}", from.address));
                eventually("a message is wanted", || {
                    (publisher.publish(&topic, "") == Reason::SUCCESS).then_some(())
                });
            }
        }
        Some(own)
    }

    fn node(&self, n: usize, address: SocketAddr) -> Broker {
        let name = ["a", "b", "c"][n];
        let data = self.data.path().join(name);
        let url = self.nats.url();
        let arguments = ["--node-name", name, "--cluster", &url, "--cluster-timeout", "15s"];
        let stored = ["--persistence-dir", data.to_str().unwrap()];
        Broker::start_at_with(self.driver, address, &[&arguments[..], &stored].concat())
    }

    /// Ends a node, runs `meanwhile`, and starts the node again.
    fn without(&mut self, n: usize, end: impl FnOnce(Broker), meanwhile: impl FnOnce(&[Broker])) {
        let node = self.nodes.remove(n);
        let address = node.address;
        end(node);
        meanwhile(&self.nodes);
        let node = self.node(n, address);
        self.nodes.insert(n, node);
    }
}

/// Receives messages up to `last`, without those that are repeated.
fn receive_up_to(client: &mut Client, last: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    while found.last().is_none_or(|found| found != last) {
        let received = client.next();
        let message = received.message();
        let payload = String::from_utf8(message.payload.to_vec()).unwrap();
        if !found.contains(&payload) {
            found.push(payload);
        }
        client.acknowledge(&message);
    }
    found
}

/// Opens the kept session of the subscriber.
fn subscriber(node: &Broker) -> (Client, bool) {
    Client::connect_with(node, &ConnectOptions::persistent("subscriber"))
}

fn a_killed_node_returns(driver: &'static str) {
    let Some(mut cluster) = Cluster::start(driver) else { return };
    let (mut client, _) = subscriber(&cluster.nodes[1]);
    client.subscribe("t", QoS::AtLeastOnce);
    let mut publisher = Client::new(&cluster.nodes[0], "publisher");
    assert_eq!(publisher.publish("t", "before"), Reason::SUCCESS);
    client.expect_message("t", "before");
    cluster.without(1, Broker::crashes, |others| {
        for n in 0..10 {
            assert_eq!(publisher.publish("t", &n.to_string()), Reason::SUCCESS);
        }
        // The others know before the timeout, and are served without the node.
        let lost = "node b: not connected: the node is not connected to NATS";
        for other in others {
            eventually(lost, || other.stderr().contains(lost).then_some(()));
        }
        let mut there = Client::new(&others[1], "there");
        there.subscribe("other", QoS::AtLeastOnce);
        eventually("a message is wanted", || {
            (publisher.publish("other", "x") == Reason::SUCCESS).then_some(())
        });
        there.expect_message("other", "x");
    });
    let (mut client, is_present) = subscriber(&cluster.nodes[1]);
    assert!(is_present);
    publisher.publish("t", "last");
    let mut expected: Vec<_> = (0..10).map(|n| n.to_string()).collect();
    expected.push("last".into());
    let found = receive_up_to(&mut client, "last");
    // The acknowledgement of the first one may have been lost with the node.
    assert_eq!(found.strip_prefix(&["before".to_owned()]).unwrap_or(&found), expected);
}

fn a_rolling_restart_loses_nothing(driver: &'static str) {
    let Some(mut cluster) = Cluster::start(driver) else { return };
    let (mut client, _) = subscriber(&cluster.nodes[1]);
    client.subscribe("t", QoS::AtLeastOnce);
    drop(client);
    let mut expected = Vec::new();
    for restarted in 0..3 {
        let mut publish = |nodes: &[Broker], when: &str| {
            for (n, node) in nodes.iter().enumerate() {
                let payload = format!("{restarted} {when} {n}");
                let mut publisher = Client::new(node, "publisher");
                assert_eq!(publisher.publish("t", &payload), Reason::SUCCESS);
                expected.push(payload);
            }
        };
        publish(&cluster.nodes, "before");
        cluster.without(restarted, |mut node| node.ends_well(), |others| publish(others, "while"));
        publish(&cluster.nodes, "after");
    }
    let (mut client, is_present) = subscriber(&cluster.nodes[1]);
    assert!(is_present);
    let mut found = Vec::new();
    while found.len() < expected.len() {
        let received = client.next();
        let message = received.message();
        let payload = String::from_utf8(message.payload.to_vec()).unwrap();
        client.acknowledge(&message);
        if !found.contains(&payload) {
            found.push(payload);
        }
    }
    // Those of different nodes have no order.
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

fn credentials_are_reloaded(driver: &'static str) {
    let Some(mut nats) = NatsServer::start("authorization { token: old }") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, token) = (folder.path().join("broker.toml"), folder.path().join("token"));
    fs::write(&token, "old\n").unwrap();
    let text = format!(
        "listen = \"127.0.0.1:0\"\ncluster = \"{}\"\ncluster-password-file = \"{}\"\n",
        nats.url(),
        token.display()
    );
    fs::write(&file, text).unwrap();
    let broker = Broker::start_by(driver, &file);
    let connections = |count| {
        eventually("a connection to NATS", || {
            let output = broker.stderr();
            (output.matches("cluster: connected to").count() == count).then_some(())
        });
    };
    connections(1);
    nats.restart_with("authorization { token: new }");
    eventually("a refusal", || broker.stderr().contains("Authorization Violation").then_some(()));
    fs::remove_file(&token).unwrap();
    broker.rereads("cannot read");
    fs::write(&token, "new\n").unwrap();
    broker.rereads("reloaded: ");
    connections(2);
}

fn slow_credentials_do_not_delay_lanes(driver: &'static str) {
    let Some(nats) = NatsServer::start("") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, token) = (folder.path().join("broker.toml"), folder.path().join("token"));
    fs::write(&token, "old\n").unwrap();
    let text = format!(
        "listen = \"{}:0\"\ncluster = \"{}\"\nnode-name = \"a\"\ncluster-password-file = \"{}\"\n",
        unique_loopback(),
        nats.url(),
        token.display()
    );
    fs::write(&file, text).unwrap();
    let slow = Broker::start_by(driver, &file);
    let connected = "cluster: connected to";
    eventually(connected, || slow.stderr().contains(connected).then_some(()));
    // The reload reads the first content. Reading the second one, for NATS, never ends.
    fs::remove_file(&token).unwrap();
    let made = Command::new("mkfifo").arg(&token).status();
    assert!(made.unwrap().success());
    let writer = std::thread::spawn(move || fs::write(token, "new\n").unwrap());
    slow.rereads("reloaded: ");
    writer.join().unwrap();
    let url = nats.url();
    let arguments = ["--ephemeral", "--node-name", "b", "--cluster", &url];
    let other = Broker::start_at_with(driver, (unique_loopback(), 0).into(), &arguments);
    // The node with the lesser name opens the lane.
    let mut subscriber = Client::new(&other, "subscriber");
    subscriber.subscribe("t", QoS::AtLeastOnce);
    let mut publisher = Client::new(&slow, "publisher");
    eventually("a message is wanted", || {
        (publisher.publish("t", "") == Reason::SUCCESS).then_some(())
    });
}

#[test]
fn servers_are_checked() {
    let Some(nats) = NatsServer::start("max_payload: 70000") else { return };
    let (url, none) = (nats.url(), "nats://127.0.0.1:1");
    let mut command = bare();
    command.args(["broker", "--ephemeral", "--check", "--cluster", &url, "--cluster", none]);
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains(&format!("cluster: {url}: its max_payload is 70000 bytes")),
        "{stderr}"
    );
    assert!(stderr.contains(&format!("cluster: {none}: ")), "{stderr}");
    let (home, another) = (tempfile::tempdir().unwrap(), "nats://127.0.0.1:2");
    let mut command = bare();
    command.args(["broker", "--check", "--cluster-keep-sessions", "--cluster", &url]);
    command.args(["--cluster", none, "--cluster", another, "--persistence-dir"]);
    let output = command.arg(home.path()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    for what in ["its max_payload is 70000 bytes", "it is not part of a NATS cluster"] {
        assert!(stderr.contains(&format!("cluster: {url}: {what}")), "{stderr}");
    }
}
