//! Bridges to mosquitto (Debian's `mosquitto`).

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use phalanx_broker::{BridgeTopic, Direction};
use phalanx_mqtt::QoS;
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::Client;
use phalanx_testkit::process::Process;

use super::{
    ALL_QOS, Node, any, await_state, bridge, config, next, publish, topic, unique_loopback,
};

/// The path of mosquitto. If it is not installed, prints a message that the test harness does not capture.
pub(super) fn program() -> Option<&'static str> {
    let found = ["/usr/sbin/mosquitto", "/usr/bin/mosquitto", "/usr/local/sbin/mosquitto"]
        .into_iter()
        .find(|path| Path::new(path).exists());
    if found.is_none() {
        let notice = "LEFT OUT: mosquitto is not installed (Debian: apt-get install mosquitto)\n";
        let _ = std::io::stderr().write_all(notice.as_bytes());
    }
    found
}

/// Starts mosquitto with additional lines of configuration.
pub(super) fn start(program: &str, address: SocketAddr, folder: &Path, lines: &str) -> Process {
    let file = folder.join("mosquitto.conf");
    let text = format!(
        "listener {} {}\nallow_anonymous true\npersistence true\npersistence_location {}/\n\
         autosave_interval 1\nuser root\n{lines}",
        address.port(),
        address.ip(),
        folder.display()
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(program);
    command.arg("-c").arg(&file);
    let process = Process::start(command);
    eventually("mosquitto listens", || std::net::TcpStream::connect(address).ok().map(drop));
    process
}

#[test]
fn messages_pass_in_both_directions() {
    let Some(program) = program() else { return };
    let (folder, address) = (tempfile::tempdir().unwrap(), unique_loopback());
    let _mosquitto = start(program, address, folder.path(), "");
    Client::new(address, "early").retain("far/kept", "before");
    let both = BridgeTopic { remote_prefix: "far/".into(), ..topic("#", Direction::Both, 2) };
    let mut own = bridge("m", address, vec![both]);
    own.notification_topic = Some("states/m".into());
    let local = Node::start(config(any(), vec![own]));
    local.wait_for_bridge("m");
    let mut there = Client::new(address, "subscriber");
    there.subscribe("#", QoS::ExactlyOnce);
    let mut kept =
        [next(&mut there), next(&mut there)].map(|(topic, payload, ..)| (topic, payload));
    kept.sort();
    assert_eq!(
        kept,
        [("far/kept", "before"), ("states/m", "1")]
            .map(|(topic, payload)| (topic.into(), payload.into()))
    );
    // A message retained at mosquitto is retained here, too.
    let mut here = local.subscriber("#", QoS::ExactlyOnce);
    assert_eq!(next(&mut here), ("kept".into(), "before".into(), QoS::AtLeastOnce, true));
    let mut publisher = Client::new(local.address, "publisher");
    for qos in ALL_QOS {
        publish(&mut publisher, "a/b", "out", qos, false);
        assert_eq!(next(&mut here), ("a/b".into(), "out".into(), qos, false));
        assert_eq!(next(&mut there), ("far/a/b".into(), "out".into(), qos, false));
    }
    let mut publisher = Client::new(address, "publisher");
    for qos in ALL_QOS {
        publish(&mut publisher, "far/c", "in", qos, false);
        assert_eq!(next(&mut there), ("far/c".into(), "in".into(), qos, false));
        assert_eq!(next(&mut here), ("c".into(), "in".into(), qos, false));
    }
    here.expect_no_message();
}

/// QoS 1 and 2 messages that are published while mosquitto is killed and restarted arrive there in order, those of QoS 2
/// once.
#[test]
fn no_message_is_lost_when_mosquitto_is_killed() {
    const MESSAGES: usize = 300;
    let Some(program) = program() else { return };
    let (folder, address) = (tempfile::tempdir().unwrap(), unique_loopback());
    let mut mosquitto = start(program, address, folder.path(), "");
    let local =
        Node::start(config(any(), vec![bridge("m", address, vec![topic("#", Direction::Out, 1)])]));
    local.wait_for_bridge("m");
    let mut publisher = Client::new(local.address, "publisher");
    let mut found = std::collections::BTreeSet::new();
    for number in 0..MESSAGES {
        // Retained under separate topics, so that no subscriber has to connect in time.
        publisher.retain(&format!("n/{number}"), "x");
        if number == MESSAGES / 3 {
            drop(mosquitto);
            await_state(local.address, "m", "0");
            mosquitto = start(program, address, folder.path(), "");
        }
    }
    local.wait_for_bridge("m");
    // mosquitto may have lost messages that it acknowledged before it was killed, because it writes its file at
    // intervals.
    let mut there = Client::new(address, "subscriber");
    there.subscribe("n/#", QoS::AtLeastOnce);
    while !found.contains(&format!("n/{}", MESSAGES - 1)) {
        found.insert(next(&mut there).0);
    }
    let lost =
        (MESSAGES / 3 + 1..MESSAGES).filter(|number| !found.contains(&format!("n/{number}")));
    assert_eq!(lost.count(), 0);
    drop(mosquitto);
}

/// A bridge of mosquitto to this broker.
#[test]
fn the_bridge_of_mosquitto_is_served() {
    let Some(program) = program() else { return };
    let (folder, address) = (tempfile::tempdir().unwrap(), unique_loopback());
    let local = Node::start(config(any(), Vec::new()));
    let lines = format!(
        "connection up\naddress {}\ntopic # both 2 \"\" site/\nbridge_protocol_version mqttv50\n\
         notifications false\nrestart_timeout 1\n",
        local.address
    );
    let _mosquitto = start(program, address, folder.path(), &lines);
    let mut here = local.subscriber("site/#", QoS::ExactlyOnce);
    let mut publisher = Client::new(address, "publisher");
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        // mosquitto queues them until its bridge is connected.
        publish(&mut publisher, "a", "x", qos, false);
        assert_eq!(next(&mut here), ("site/a".into(), "x".into(), qos, false));
    }
    let mut there = Client::new(address, "subscriber");
    there.subscribe("b", QoS::AtLeastOnce);
    publish(&mut Client::new(local.address, "other"), "site/b", "y", QoS::AtLeastOnce, false);
    assert_eq!(next(&mut there), ("b".into(), "y".into(), QoS::AtLeastOnce, false));
}
