//! A remote broker keeps the messages that this broker cannot store. Its acknowledgements free space for them.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use phalanx_broker::Direction;
use phalanx_mqtt::{
    Ack, ConnAck, Delivery, Frame, Packet, PacketId, Properties, Publish, QoS, Reason, SubAck,
    Version,
};
use phalanx_testkit::TIMEOUT;
use phalanx_testkit::mqtt::{Client, ConnectOptions, id};

use super::suback::send;
use super::{Node, any, bridge, config, topic};

/// The remote broker.
pub(super) struct Remote {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Remote {
    /// Accepts the bridge.
    pub(super) fn accept(listener: &TcpListener, session_present: bool) -> Self {
        let stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let (mut own, properties) = (Self { stream, input: Vec::new() }, Properties::NONE);
        own.find(|packet| matches!(packet, Packet::Connect(_)).then_some(()));
        let reason = Reason::SUCCESS;
        own.send(Packet::ConnAck(ConnAck { session_present, reason, properties }));
        let id = own.find(|packet| match packet {
            Packet::Subscribe(subscribe) => Some(subscribe.id),
            _ => None,
        });
        own.send(Packet::SubAck(SubAck { id, reasons: &[1], properties }));
        own
    }

    pub(super) fn send(&mut self, packet: Packet<'_>) {
        send(&mut self.stream, packet);
    }

    /// Sends a message to `t`.
    fn publish(&mut self, payload: &str, delivery: Delivery, duplicate: bool) {
        let (topic, payload, retain) = ("t", payload.as_bytes(), false);
        let properties = Properties::NONE;
        let own = Publish { topic, payload, delivery, retain, duplicate, properties };
        self.send(Packet::Publish(own));
    }

    /// Reads packets until one satisfies `accept`, and returns the result of that.
    pub(super) fn find<T>(&mut self, accept: impl Fn(&Packet<'_>) -> Option<T>) -> T {
        loop {
            while let Some(frame) = Frame::split(&self.input, Frame::MAX_PACKET).unwrap() {
                let length = frame.length();
                let found = accept(&Packet::decode(frame, Version::V5).unwrap());
                self.input.drain(..length);
                if let Some(found) = found {
                    return found;
                }
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "the connection lasts");
            self.input.extend_from_slice(&bytes[..count]);
        }
    }

    /// The next acknowledgement, or the reason for the end of the connection.
    fn answer(&mut self) -> (Option<PacketId>, Reason) {
        self.find(|packet| match packet {
            Packet::PubAck(ack) => Some((Some(ack.id), ack.reason)),
            Packet::Disconnect(end) => Some((None, end.reason)),
            _ => None,
        })
    }
}

/// Starts a broker whose journal, in `home`, is full of messages for the remote broker. Also returns a subscriber to `t`,
/// the connection, and the messages on it.
fn full(
    home: &Path,
    listener: &TcpListener,
    clean_start: bool,
) -> (Node, Client, Remote, Vec<PacketId>) {
    let topics = vec![topic("out", Direction::Out, 1), topic("t", Direction::In, 1)];
    let mut bridge = bridge("b", listener.local_addr().unwrap(), topics);
    bridge.clean_start = clean_start;
    let mut small = config(any(), vec![bridge]);
    small.persistence_dir = Some(home.into());
    small.limits.persistence_bytes = 200_000;
    let local = Node::start(small);
    let mut remote = Remote::accept(listener, !clean_start);
    local.wait_for_bridge("b");
    let (mut subscriber, _) =
        Client::connect_with(local.address, &ConnectOptions::persistent("subscriber"));
    subscriber.subscribe("t", QoS::AtLeastOnce);
    let (mut publisher, payload) = (Client::new(local.address, "publisher"), "x".repeat(10_000));
    let mut ids = Vec::new();
    while publisher.publish("out", &payload) == Reason::SUCCESS {
        ids.push(remote.find(|packet| match packet {
            Packet::Publish(publish) => publish.delivery.id(),
            _ => None,
        }));
    }
    assert!(ids.len() > 10, "{ids:?}");
    (local, subscriber, remote, ids)
}

#[test]
fn acknowledgements_make_room_for_a_message_that_was_not_stored() {
    let listener = TcpListener::bind(any()).unwrap();
    let home = tempfile::tempdir().unwrap();
    let (local, mut subscriber, mut remote, ids) = full(home.path(), &listener, false);
    remote.publish("kept", Delivery::AtLeastOnce(id(1)), false);
    remote.publish("live", Delivery::AtMostOnce, false);
    subscriber.expect_message("t", "live");
    for id in ids {
        remote.send(Packet::PubAck(Ack::success(id)));
    }
    assert_eq!(remote.answer(), (None, Reason::QUOTA_EXCEEDED), "it is not acknowledged");
    let mut remote = Remote::accept(&listener, true);
    remote.publish("kept", Delivery::AtLeastOnce(id(1)), true);
    subscriber.expect_message("t", "kept");
    assert_eq!(remote.answer(), (Some(id(1)), Reason::SUCCESS));
    drop(local);
}

/// Such a remote broker would not send the message again.
#[test]
fn a_remote_broker_without_the_session_gets_a_refusal() {
    let listener = TcpListener::bind(any()).unwrap();
    let home = tempfile::tempdir().unwrap();
    let (local, _subscriber, mut remote, _) = full(home.path(), &listener, true);
    remote.publish("lost", Delivery::AtLeastOnce(id(1)), false);
    assert_eq!(remote.answer(), (Some(id(1)), Reason::QUOTA_EXCEEDED));
    drop(local);
}
