//! Retained messages and bridges.

use phalanx_broker::Direction;
use phalanx_mqtt::QoS;
use phalanx_testkit::mqtt::Client;

use super::{Node, any, bridge, config, next, publish, topic};

/// The topics and payloads that a subscriber to `a/#` gets, up to the message of `a/end`.
fn until_end(subscriber: &mut Client) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    loop {
        let (topic, payload, ..) = next(subscriber);
        if topic == "a/end" {
            return seen;
        }
        seen.push((topic, payload));
    }
}

/// The first connection after a start sends the retained messages of this broker, but not those that came from there:
/// they may be old.
#[test]
fn a_restart_returns_no_retained_message() {
    let (remote, home) = (Node::start(config(any(), Vec::new())), tempfile::tempdir().unwrap());
    let start = || {
        let own = bridge("b", remote.address, vec![topic("a/#", Direction::Both, 1)]);
        let mut own = config(any(), vec![own]);
        own.persistence_dir = Some(home.path().into());
        let node = Node::start(own);
        node.awaits("b");
        node
    };
    let local = start();
    let mut there = Client::new(remote.address, "publisher");
    publish(&mut there, "a/theirs", "old", QoS::AtLeastOnce, true);
    let mut here = local.subscriber("a/#", QoS::AtLeastOnce);
    assert_eq!(next(&mut here).1, "old");
    publish(&mut here, "b", "", QoS::AtLeastOnce, false);
    drop(here);
    Client::new(local.address, "own").retain("a/ours", "1");
    drop(local);
    publish(&mut there, "a/theirs", "new", QoS::AtLeastOnce, true);
    let mut watcher = remote.subscriber("a/#", QoS::AtLeastOnce);
    let local = start();
    // The bridge sends the retained messages before this one.
    Client::new(local.address, "own").publish("a/end", "");
    let seen = until_end(&mut watcher);
    assert!(seen.contains(&("a/ours".into(), "1".into())), "{seen:?}");
    assert!(!seen.contains(&("a/theirs".into(), "old".into())), "{seen:?}");
    assert_eq!(next(&mut remote.subscriber("a/theirs", QoS::AtLeastOnce)).1, "new");
}
