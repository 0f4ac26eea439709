//! Remote brokers with low limits.

use phalanx_broker::Direction;
use phalanx_mqtt::QoS;
use phalanx_testkit::mqtt::Client;

use super::{Node, any, bridge, config, next, publish, topic};

/// A bridge to a broker that accepts one QoS 2 message at once, and packets of up to 1000 bytes.
struct Limited {
    /// The brokers run until this is dropped.
    _nodes: (Node, Node),
    /// A subscriber at the remote broker.
    there: Client,
    /// A publisher at the broker with the bridge.
    publisher: Client,
    /// A subscriber to the bridge's state, which has received that it is connected.
    states: Client,
}

fn limited() -> Limited {
    let mut limited = config(any(), Vec::new());
    (limited.limits.receive_maximum, limited.limits.packet_size) = (1, 1000);
    let remote = Node::start(limited);
    let topics = vec![topic("a/#", Direction::Both, 2)];
    let local = Node::start(config(any(), vec![bridge("b", remote.address, topics)]));
    local.wait_for_bridge("b");
    let there = remote.subscriber("a/#", QoS::AtLeastOnce);
    let mut states = Client::new(local.address, "states");
    states.subscribe("$SYS/broker/connection/b/state", QoS::AtMostOnce);
    assert_eq!(states.next().message().payload, b"1");
    let publisher = Client::new(local.address, "publisher");
    Limited { _nodes: (local, remote), there, publisher, states }
}

/// Otherwise the remote broker would disconnect the bridge, which would send the messages again.
#[test]
fn no_more_messages_are_in_flight_than_the_remote_accepts() {
    let Limited { there, publisher, states, .. } = &mut limited();
    for n in 0..50 {
        publish(publisher, "a/x", &n.to_string(), QoS::ExactlyOnce, false);
    }
    for n in 0..50 {
        let expected = ("a/x".into(), n.to_string(), QoS::AtLeastOnce, false);
        assert_eq!(next(there), expected);
    }
    states.expect_no_message();
}

#[test]
fn a_message_that_exceeds_the_remotes_maximum_packet_size_is_left_out() {
    let Limited { there, publisher, states, .. } = &mut limited();
    for (payload, qos) in
        [("x".repeat(1000), QoS::AtLeastOnce), ("y".repeat(900), QoS::ExactlyOnce)]
    {
        publish(publisher, "a/x", &payload, qos, false);
        publish(publisher, "a/x", "after", qos, false);
    }
    let expected = ["after", &"y".repeat(900), "after"];
    assert_eq!(expected.map(|_| next(there).1), expected);
    states.expect_no_message();
}
