//! Bridges between two brokers in this process.

use std::io::{ErrorKind, Read};
use std::time::Duration;

use phalanx_broker::{BridgeTopic, Direction};
use phalanx_mqtt::{Delivery, Property, QoS};
use phalanx_testkit::eventually;
use phalanx_testkit::mqtt::{Client, id};

use super::{
    ALL_QOS, Node, any, await_free, bridge, config, next, publish, topic, unique_loopback,
};

#[test]
fn messages_of_all_qos_pass_in_both_directions() {
    let remote = Node::start(config(any(), Vec::new()));
    let (local_prefix, remote_prefix) = ("here/".to_owned(), "there/far/".to_owned());
    let both = BridgeTopic { local_prefix, remote_prefix, ..topic("#", Direction::Both, 2) };
    let local = Node::start(config(any(), vec![bridge("b", remote.address, vec![both])]));
    local.wait_for_bridge("b");
    let mut there = remote.subscriber("#", QoS::ExactlyOnce);
    let mut here = local.subscriber("#", QoS::ExactlyOnce);
    let mut publisher = Client::new(local.address, "publisher");
    for qos in ALL_QOS {
        publish(&mut publisher, "here/a/b", "out", qos, false);
        assert_eq!(next(&mut here), ("here/a/b".into(), "out".into(), qos, false));
        assert_eq!(next(&mut there), ("there/far/a/b".into(), "out".into(), qos, false));
    }
    let mut publisher = Client::new(remote.address, "publisher");
    for qos in ALL_QOS {
        publish(&mut publisher, "there/far/c", "in", qos, false);
        assert_eq!(next(&mut there), ("there/far/c".into(), "in".into(), qos, false));
        assert_eq!(next(&mut here), ("here/c".into(), "in".into(), qos, false));
    }
    // Neither message is returned, and other topics are not forwarded.
    publish(&mut publisher, "elsewhere", "", QoS::AtLeastOnce, false);
    assert_eq!(next(&mut there).0, "elsewhere");
    there.expect_no_message();
    here.expect_no_message();
}

#[test]
fn properties_and_retained_messages_are_kept() {
    let remote = Node::start(config(any(), Vec::new()));
    let local = Node::start(config(
        any(),
        vec![bridge("b", remote.address, vec![topic("a/#", Direction::Out, 1)])],
    ));
    local.wait_for_bridge("b");
    let mut there = remote.subscriber("a/#", QoS::AtLeastOnce);
    let mut publisher = Client::new(local.address, "publisher");
    let properties = [
        Property::PayloadIsText(true),
        Property::MessageExpiry(600),
        Property::ContentType("text"),
        Property::ResponseTopic("r/1"),
        Property::CorrelationData(b"c"),
        Property::User("k", "v"),
        Property::User("k", "w"),
    ];
    publisher.publish_with("a/x", "1", Delivery::AtLeastOnce(id(1)), true, &properties);
    assert!(!publisher.expect_puback().is_failure());
    let received = there.next();
    let message = received.message();
    let found: Vec<_> = message.properties.iter().collect();
    for property in
        properties.iter().filter(|property| !matches!(property, Property::MessageExpiry(_)))
    {
        assert!(found.contains(property), "{property:?} of {found:?}");
    }
    assert!(
        found.iter().any(|property| matches!(property, Property::MessageExpiry(590..=600))),
        "{found:?}"
    );
    assert!(
        found.iter().any(|property| matches!(property, Property::User("bridge-via", _))),
        "{found:?}"
    );
    drop(there);
    // The message is retained at the remote broker, and then cleared there.
    assert_eq!(next(&mut remote.subscriber("a/#", QoS::AtLeastOnce)).1, "1");
    publisher.retain("a/x", "");
    let mut there = remote.subscriber("marker", QoS::AtLeastOnce);
    publish(&mut publisher, "a/y", "", QoS::AtLeastOnce, false);
    drop(publisher);
    there.expect_no_message();
}

#[test]
fn content_filters_decide_what_is_forwarded() {
    let remote = Node::start(config(any(), Vec::new()));
    let filtered = |filter: &str, prefix: &str| BridgeTopic {
        filter: Some(filter.into()),
        json_payload: true,
        remote_prefix: prefix.into(),
        ..topic("t/#", Direction::Out, 1)
    };
    let topics = vec![filtered("n > 50", "high/"), filtered("n < 5", "low/")];
    let local = Node::start(config(any(), vec![bridge("b", remote.address, topics)]));
    local.wait_for_bridge("b");
    let mut there = remote.subscriber("#", QoS::AtLeastOnce);
    let mut publisher = Client::new(local.address, "publisher");
    for number in [7, 80, 1, 50] {
        publisher.publish("t/x", &format!("{{\"n\": {number}}}"));
    }
    there.expect_message("high/t/x", "{\"n\": 80}");
    there.expect_message("low/t/x", "{\"n\": 1}");
    there.expect_no_message();
}

#[test]
fn queued_messages_arrive_when_the_remote_broker_is_back() {
    let address = unique_loopback();
    let local =
        Node::start(config(any(), vec![bridge("b", address, vec![topic("#", Direction::Out, 1)])]));
    let mut publisher = Client::new(local.address, "publisher");
    // Until the session exists, nothing is queued for it.
    super::await_state(local.address, "b", "0");
    let mut number = 0;
    for round in 0..3 {
        for _ in 0..20 {
            publisher.publish("a", &number.to_string());
            number += 1;
        }
        let remote = Node::start(config(address, Vec::new()));
        let mut there = remote.subscriber("a", QoS::AtLeastOnce);
        local.wait_for_bridge("b");
        publisher.publish("a", &format!("live {round}"));
        // The subscriber may have missed the first messages; the last one is live.
        while next(&mut there).1 != format!("live {round}") {}
        drop(there);
        drop(remote);
        await_free(address);
        super::await_state(local.address, "b", "0");
    }
}

/// With a persistence directory the queue survives a restart of the broker.
#[test]
fn the_queue_survives_a_restart() {
    let (address, home) = (unique_loopback(), tempfile::tempdir().unwrap());
    let start = || {
        let own = bridge("b", address, vec![topic("#", Direction::Out, 2)]);
        let mut own = config(any(), vec![own]);
        own.persistence_dir = Some(home.path().into());
        Node::start(own)
    };
    let local = start();
    super::await_state(local.address, "b", "0");
    let mut publisher = Client::new(local.address, "publisher");
    for number in 0..20 {
        let qos = if number % 2 == 0 { QoS::AtLeastOnce } else { QoS::ExactlyOnce };
        publish(&mut publisher, "a", &number.to_string(), qos, false);
    }
    drop(publisher);
    drop(local);
    let remote = Node::start(config(address, Vec::new()));
    let mut there = remote.subscriber("a", QoS::AtLeastOnce);
    let _local = start();
    for number in 0..20 {
        assert_eq!(next(&mut there).1, number.to_string());
    }
    there.expect_no_message();
}

/// A message takes each path once: over each bridge in each direction, as far as no-local allows.
#[test]
fn brokers_that_bridge_to_each_other_make_no_loop() {
    for (no_local, paths) in [(true, 2), (false, 4)] {
        let addresses = [unique_loopback(), unique_loopback()];
        let of = |node: usize| {
            let all = topic("#", Direction::Both, 1);
            let mut to = bridge(&format!("b{node}"), addresses[1 - node], vec![all]);
            to.no_local = no_local;
            Node::start(config(addresses[node], vec![to]))
        };
        let nodes = [of(0), of(1)];
        nodes[0].wait_for_bridge("b0");
        nodes[1].wait_for_bridge("b1");
        let mut subscribers = [0, 1].map(|n| nodes[n].subscriber("a", QoS::AtLeastOnce));
        let mut publisher = Client::new(nodes[0].address, "publisher");
        for payload in ["first", "second", "third"] {
            publisher.publish("a", payload);
        }
        for subscriber in &mut subscribers {
            let mut count = 0;
            while next(subscriber).1 != "third" {
                count += 1;
            }
            assert!(count <= 3 * paths, "{count}");
        }
        // A message in a loop would arrive forever.
        for node in &nodes {
            eventually("no message circulates", || {
                let probe = node.subscriber("a", QoS::AtMostOnce);
                if probe.has_input() {
                    return None;
                }
                let mut probe = probe.into_stream();
                probe.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                let read = probe.read(&mut [0]);
                read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock).then_some(())
            });
        }
    }
}
