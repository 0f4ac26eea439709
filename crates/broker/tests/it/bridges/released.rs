//! The remote broker still holds QoS 2 messages of a bridge's earlier session.

use std::net::{SocketAddr, TcpListener};

use phalanx_broker::Direction;
use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, QoS};
use phalanx_testkit::mqtt::{Client, ConnectOptions, id};

use super::mosquitto::{program, start};
use super::owing::Remote;
use super::{Node, any, bridge, config, next, publish, topic, unique_loopback};

/// Number of messages in the earlier session, and in the new one.
const MESSAGES: u16 = 10;

/// Begins the session of a bridge, and leaves QoS 2 messages incomplete.
fn begin_session(remote: SocketAddr) {
    let (mut earlier, _) = Client::connect_with(remote, &ConnectOptions::persistent("bridge-b"));
    for number in 1..=MESSAGES {
        earlier.publish_with("out", "earlier", Delivery::ExactlyOnce(id(number)), false, &[]);
        assert!(matches!(earlier.next().packet(), Packet::PubRec(_)));
    }
    earlier.drop_connection();
}

/// The messages of a new session have the packet identifiers of earlier ones.
fn new_messages_arrive(remote: SocketAddr, local_clean_start: bool) {
    begin_session(remote);
    let mut there = Client::new(remote, "there");
    there.subscribe("out", QoS::AtMostOnce);
    let topics = vec![topic("out", Direction::Out, 2), topic("in", Direction::In, 2)];
    let mut bridge = bridge("b", remote, topics);
    bridge.local_clean_start = local_clean_start;
    let local = Node::start(config(any(), vec![bridge]));
    local.wait_for_bridge("b");
    let mut publisher = Client::new(local.address, "publisher");
    for number in 0..MESSAGES {
        let payload = &format!("new {number}");
        publish(&mut publisher, "out", payload, QoS::ExactlyOnce, false);
        // Mosquitto delivers the earlier messages when they are released.
        let (topic, arrived, ..) = loop {
            let next = next(&mut there);
            if &*next.1 != "earlier" {
                break next;
            }
        };
        assert_eq!((&*topic, &*arrived), ("out", payload.as_str()));
    }
    there.expect_no_message();
    let mut here = local.subscriber("in", QoS::ExactlyOnce);
    publish(&mut Client::new(remote, "other"), "in", "back", QoS::ExactlyOnce, false);
    assert_eq!(next(&mut here), ("in".into(), "back".into(), QoS::ExactlyOnce, false));
}

#[test]
fn new_messages_are_not_taken_for_earlier_ones() {
    for local_clean_start in [false, true] {
        let remote = Node::start(config(any(), Vec::new()));
        new_messages_arrive(remote.address, local_clean_start);
    }
}

#[test]
fn mosquitto_does_not_take_new_messages_for_earlier_ones() {
    let Some(program) = program() else { return };
    let (folder, address) = (tempfile::tempdir().unwrap(), unique_loopback());
    let _mosquitto = start(program, address, folder.path(), "");
    new_messages_arrive(address, false);
}

/// Otherwise the bridge could mistake an answer for the answer to a new message, or release a new message together with
/// the earlier ones. Each connection releases the remaining identifiers, because no single connection may last long
/// enough for all.
#[test]
fn new_messages_wait_until_all_earlier_ones_are_released() {
    let listener = TcpListener::bind(any()).unwrap();
    let topics = vec![topic("out", Direction::Out, 2), topic("t", Direction::In, 1)];
    let bridge = bridge("b", listener.local_addr().unwrap(), topics);
    let local = Node::start(config(any(), vec![bridge]));
    let is_released = |remote: &mut Remote, id: PacketId| {
        let next = remote.find(|packet| Some(format!("{packet:?}")));
        assert_eq!(next, format!("{:?}", Packet::PubRel(Ack::success(id))));
    };
    let mut remote = Remote::accept(&listener, true);
    let mut publisher = Client::new(local.address, "publisher");
    publish(&mut publisher, "out", "new", QoS::ExactlyOnce, false);
    // Two remain unreleased: the last one, and one in between.
    let (between, last) = (id(1000), PacketId::MAX);
    for id in (1..=last.get()).map(id) {
        is_released(&mut remote, id);
        if id != between && id != last {
            remote.send(Packet::PubComp(Ack::success(id)));
        }
    }
    drop(remote);
    let mut remote = Remote::accept(&listener, true);
    is_released(&mut remote, between);
    is_released(&mut remote, last);
    remote.send(Packet::PubComp(Ack::success(between)));
    drop(remote);
    let mut remote = Remote::accept(&listener, true);
    is_released(&mut remote, last);
    remote.send(Packet::PubComp(Ack::success(last)));
    let sent = remote.find(|packet| match packet {
        Packet::Publish(publish) => Some((publish.topic.to_owned(), publish.delivery.id())),
        _ => None,
    });
    assert_eq!(sent, ("out".into(), Some(PacketId::MIN)));
    drop(remote);
    // The next connection continues the session.
    let mut remote = Remote::accept(&listener, true);
    let first = remote.find(|packet| Some(matches!(packet, Packet::Publish(_))));
    assert!(first, "the message is sent again");
    drop(local);
}
