//! Retained messages and bridges.

use std::cell::Cell;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use phalanx_broker::Direction;
use phalanx_mqtt::{Packet, QoS};
use phalanx_testkit::mqtt::Client;

use super::clean_start::accept;
use super::suback::until;
use super::{Node, any, await_state, bridge, config, next, publish, topic};

/// The topics and payloads that a subscriber to `a/#` gets, up to the message of `a/end`.
fn receive_until_end(subscriber: &mut Client) -> Vec<(String, String)> {
    let mut received = Vec::new();
    loop {
        let (topic, payload, ..) = next(subscriber);
        if topic == "a/end" {
            return received;
        }
        received.push((topic, payload));
    }
}

/// The first connection after a start sends the retained messages of this broker, but not those that came from the remote
/// broker, which may be outdated.
#[test]
fn a_restart_returns_no_retained_message() {
    let (remote, home) = (Node::start(config(any(), Vec::new())), tempfile::tempdir().unwrap());
    let start = || {
        let own = bridge("b", remote.address, vec![topic("a/#", Direction::Both, 1)]);
        let mut own = config(any(), vec![own]);
        own.persistence_dir = Some(home.path().into());
        let node = Node::start(own);
        node.wait_for_bridge("b");
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
    // The bridge sends the retained messages before this message.
    Client::new(local.address, "own").publish("a/end", "");
    let received = receive_until_end(&mut watcher);
    assert!(received.contains(&("a/ours".into(), "1".into())), "{received:?}");
    assert!(!received.contains(&("a/theirs".into(), "old".into())), "{received:?}");
    assert_eq!(next(&mut remote.subscriber("a/theirs", QoS::AtLeastOnce)).1, "new");
}

/// The number of messages to `a/0` and `a/1` that a remote broker gets before that to `end`.
fn counts(stream: &mut TcpStream, end: &str) -> [usize; 2] {
    let counts = [const { Cell::new(0) }; 2];
    let is_end = until(stream, |packet| {
        let Packet::Publish(publish) = packet else { return None };
        for (topic, count) in ["a/0", "a/1"].into_iter().zip(&counts) {
            count.set(count.get() + usize::from(publish.topic == topic));
        }
        (publish.topic == end).then_some(())
    });
    assert!(is_end.is_some(), "{counts:?}");
    counts.map(Cell::into_inner)
}

/// The remote broker closes each connection before it acknowledges anything. If each connection queued the retained
/// messages again, they would displace live messages in the bridge's queue.
#[test]
fn a_flapping_bridge_queues_retained_messages_once() {
    let listener = TcpListener::bind(any()).unwrap();
    let own = bridge("b", listener.local_addr().unwrap(), vec![topic("a/#", Direction::Out, 1)]);
    let local = Node::start(config(any(), vec![own]));
    // Until the bridge has its session, nothing is queued for it.
    await_state(local.address, "b", "0");
    let mut publisher = Client::new(local.address, "publisher");
    publish(&mut publisher, "a/0", "x", QoS::AtMostOnce, true);
    publish(&mut publisher, "a/1", "x", QoS::AtLeastOnce, true);
    let (mut begun, mut is_slow) = (None::<Instant>, false);
    for number in 0..4 {
        await_state(local.address, "b", "0");
        // On the broker's clock, a connection of five seconds counts as having sent the retained messages.
        is_slow |= begun.is_some_and(|begun| begun.elapsed() >= Duration::from_secs(5));
        begun = Some(Instant::now());
        let (mut stream, _) = accept(&listener);
        local.wait_for_bridge("b");
        let end = format!("a/end/{number}");
        publish(&mut publisher, &end, "x", QoS::AtLeastOnce, false);
        // The message of QoS 1 was also queued when it was published.
        let counts = counts(&mut stream, &end);
        let is_expected = counts == [1, 2] || (is_slow && counts == [0, 2]);
        assert!(is_expected, "connection {number}: {counts:?}");
    }
}
