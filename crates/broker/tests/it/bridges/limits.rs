//! Remote brokers with low limits.

use phalanx_broker::Direction;
use phalanx_mqtt::QoS;
use phalanx_testkit::mqtt::Client;

use super::{Node, any, bridge, config, next, publish, topic};

/// A bridge to a broker that accepts one QoS 2 message at once, and packets of up to 1000 bytes.
fn limited() -> (Node, Node) {
    let mut limited = config(any(), Vec::new());
    (limited.limits.receive_maximum, limited.limits.packet_size) = (1, 1000);
    let remote = Node::start(limited);
    let topics = vec![topic("a/#", Direction::Both, 2)];
    let local = Node::start(config(any(), vec![bridge("b", remote.address, topics)]));
    local.awaits("b");
    (local, remote)
}

/// It would disconnect the bridge otherwise, which would send them again.
#[test]
fn no_more_messages_are_in_flight_than_the_remote_accepts() {
    let (local, remote) = limited();
    let mut there = remote.subscriber("a/#", QoS::AtLeastOnce);
    let mut states = Client::new(local.address, "states");
    states.subscribe("$SYS/broker/connection/b/state", QoS::AtMostOnce);
    assert_eq!(states.next().message().payload, b"1");
    let mut publisher = Client::new(local.address, "publisher");
    for n in 0..50 {
        publish(&mut publisher, "a/x", &n.to_string(), QoS::ExactlyOnce, false);
    }
    for n in 0..50 {
        let expected = ("a/x".into(), n.to_string(), QoS::AtLeastOnce, false);
        assert_eq!(next(&mut there), expected);
    }
    states.receives_nothing();
}

#[test]
fn a_message_that_exceeds_the_remotes_maximum_packet_size_is_left_out() {
    let (local, remote) = limited();
    let mut there = remote.subscriber("a/#", QoS::AtLeastOnce);
    let mut states = Client::new(local.address, "states");
    states.subscribe("$SYS/broker/connection/b/state", QoS::AtMostOnce);
    assert_eq!(states.next().message().payload, b"1");
    let mut publisher = Client::new(local.address, "publisher");
    for (payload, qos) in
        [("x".repeat(1000), QoS::AtLeastOnce), ("y".repeat(900), QoS::ExactlyOnce)]
    {
        publish(&mut publisher, "a/x", &payload, qos, false);
        publish(&mut publisher, "a/x", "after", qos, false);
    }
    let expected = ["after", &"y".repeat(900), "after"];
    assert_eq!(expected.map(|_| next(&mut there).1), expected);
    states.receives_nothing();
}
