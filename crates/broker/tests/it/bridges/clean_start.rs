//! Sessions of a bridge that only one of the brokers has.

use std::net::{TcpListener, TcpStream};

use phalanx_broker::Direction;
use phalanx_mqtt::{ConnAck, Packet, Properties, Reason};

use super::suback::{send, until};
use super::{Node, any, bridge, config, topic};

/// Accepts a connection, and answers CONNECT. Returns the connection, and whether the bridge asked for a clean start.
pub(super) fn accept(listener: &TcpListener) -> (TcpStream, bool) {
    let mut stream = listener.accept().unwrap().0;
    let clean_start = until(&mut stream, |packet| match packet {
        Packet::Connect(connect) => Some(connect.clean_start),
        _ => None,
    });
    let clean_start = clean_start.unwrap();
    let (session_present, properties) = (!clean_start, Properties::NONE);
    let ack = ConnAck { session_present, reason: Reason::SUCCESS, properties };
    send(&mut stream, Packet::ConnAck(ack));
    (stream, clean_start)
}

/// Otherwise the remote broker could mistake new QoS 2 messages for earlier ones with the same packet identifiers. A
/// bridge that receives messages continues the session, so that none is lost.
#[test]
fn a_new_session_does_not_continue_that_of_the_remote_broker() {
    let cases = [
        (Direction::Out, 2, [true, false]),
        (Direction::Out, 1, [false, false]),
        (Direction::Both, 2, [false, false]),
    ];
    for (direction, qos, expected) in cases {
        let listener = TcpListener::bind(any()).unwrap();
        let own = bridge("b", listener.local_addr().unwrap(), vec![topic("#", direction, qos)]);
        let _local = Node::start(config(any(), vec![own]));
        for clean_start in expected {
            assert_eq!(accept(&listener).1, clean_start, "{direction:?} {qos}");
        }
    }
}
