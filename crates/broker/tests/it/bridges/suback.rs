//! A remote broker that sends messages before it answers SUBSCRIBE, which MQTT permits (§3.8.4).

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use phalanx_broker::{Direction, Limits};
use phalanx_mqtt::{
    ConnAck, Delivery, Frame, Packet, PacketId, Properties, Publish, QoS, Reason, SubAck, Version,
};
use phalanx_testkit::TIMEOUT;

use super::{Node, any, bridge, config, next, topic};

/// Number of messages, and the size of each in bytes. Together they exceed the broker's buffer for messages before
/// SUBACK.
const MESSAGES: usize = 400;
const BYTES: usize = 60 << 10;

/// Reads packets until one satisfies `accept`, and returns the result of that.
pub(super) fn until<T>(
    stream: &mut TcpStream,
    accept: impl Fn(&Packet<'_>) -> Option<T>,
) -> Option<T> {
    let mut input = Vec::new();
    loop {
        while let Some(frame) = Frame::split(&input, Frame::MAX_PACKET).unwrap() {
            let length = frame.length();
            if let Some(found) = accept(&Packet::decode(frame, Version::V5).unwrap()) {
                return Some(found);
            }
            input.drain(..length);
        }
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).ok().filter(|count| *count > 0)?;
        input.extend_from_slice(&bytes[..count]);
    }
}

pub(super) fn send(stream: &mut TcpStream, packet: Packet<'_>) {
    let mut bytes = Vec::new();
    packet.encode(Version::V5, &mut bytes).unwrap();
    stream.write_all(&bytes).unwrap();
}

/// Accepts a bridge, sends many messages, answers SUBSCRIBE if there is a `reason`, and waits for the end of the
/// connection.
fn serve(mut stream: TcpStream, reason: Option<Reason>) {
    let properties = Properties::NONE;
    until(&mut stream, |packet| matches!(packet, Packet::Connect(_)).then_some(()));
    let (session_present, reason_of_connack) = (false, Reason::SUCCESS);
    let ack = ConnAck { session_present, reason: reason_of_connack, properties };
    send(&mut stream, Packet::ConnAck(ack));
    let id = until(&mut stream, |packet| match packet {
        Packet::Subscribe(subscribe) => Some(subscribe.id),
        _ => None,
    });
    let Some(id): Option<PacketId> = id else { return };
    let payload = &vec![b'x'; BYTES];
    for number in 0..MESSAGES {
        let topic = &format!("a/{number}");
        let (delivery, retain, duplicate) = (Delivery::AtMostOnce, true, false);
        let publish = Publish { topic, payload, delivery, retain, duplicate, properties };
        send(&mut stream, Packet::Publish(publish));
    }
    if let Some(reason) = reason {
        send(&mut stream, Packet::SubAck(SubAck { id, reasons: &[reason.0], properties }));
    }
    until(&mut stream, |_| None::<()>);
}

#[test]
fn many_messages_precede_suback() {
    let listener = TcpListener::bind(any()).unwrap();
    let remote = listener.local_addr().unwrap();
    let server = thread::spawn(move || serve(listener.accept().unwrap().0, Some(Reason::SUCCESS)));
    let mut own = config(any(), vec![bridge("b", remote, vec![topic("a/#", Direction::In, 0)])]);
    own.limits.queued_bytes = 256 << 20;
    let local = Node::start(own);
    local.wait_for_bridge("b");
    let last = format!("a/{}", MESSAGES - 1);
    // The message arrives retained or live.
    let mut subscriber = local.subscriber(&last, QoS::AtMostOnce);
    assert_eq!(next(&mut subscriber).0, last);
    drop(local);
    server.join().unwrap();
}

/// A late refusal ends the connection, too.
#[test]
fn a_late_refusal_ends_the_connection() {
    the_connection_ends(Some(Reason::NOT_AUTHORIZED), Limits::default().connect);
}

#[test]
fn a_missing_answer_ends_the_connection() {
    the_connection_ends(None, Duration::from_secs(2));
}

/// Checks that a bridge closes its connection after this answer to SUBSCRIBE, or without one. Unanswered pings are not
/// the cause: the first ping would be sent much later.
fn the_connection_ends(reason: Option<Reason>, connect: Duration) {
    let listener = TcpListener::bind(any()).unwrap();
    let remote = listener.local_addr().unwrap();
    let (ended, is_ended) = channel();
    thread::spawn(move || {
        serve(listener.accept().unwrap().0, reason);
        // So later attempts find no listener.
        drop(listener);
        ended.send(()).unwrap();
    });
    let bridges = vec![bridge("b", remote, vec![topic("a/#", Direction::In, 0)])];
    let mut own = config(any(), bridges);
    own.limits.connect = connect;
    let local = Node::start(own);
    is_ended.recv_timeout(TIMEOUT).expect("the bridge closes the connection");
    drop(local);
}
