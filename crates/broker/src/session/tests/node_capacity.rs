//! The queue for another node, for which publishers wait.

use std::task::Waker;

use super::*;
use crate::peers::Peers;

#[test]
fn the_queue_for_a_connected_node_takes_what_publishers_wait_for() {
    let mut sessions = with(Limits { queued_messages: 8, ..Limits::default() });
    let (peers, node) = (Peers::new("a"), Arc::from("$cluster/b"));
    sessions.counters.peers = Some(peers.clone());
    let capacity = peers.node_capacities.of(&node);
    let opening = Opening { client_id: node, receive_maximum: 2, ..opening() };
    let Opened { key, connection_id, .. } = sessions.open(opening, at(0)).0.unwrap();
    let deliver = |sessions: &mut Sessions, qos, count: usize| {
        let mut batch = DeliveryBatch::default();
        let delivery = match qos {
            QoS::AtMostOnce => Delivery::AtMostOnce,
            _ => Delivery::AtLeastOnce(id(1)),
        };
        for _ in 0..count {
            batch.add(key, &message(delivery, b"x"), How { qos, ..How::default() });
        }
        sessions.deliver(&batch, at(0));
        sessions.get(key).map_or(0, |session| session.queue.len())
    };
    let dropped = |sessions: &Sessions| sessions.counters.drops.count(DropReason::QueueFull);
    assert_eq!(deliver(&mut sessions, QoS::AtLeastOnce, 9), 7);
    assert!(!capacity.is_full());
    assert_eq!(deliver(&mut sessions, QoS::AtLeastOnce, 1), 8);
    assert!(capacity.is_full());
    assert_eq!(deliver(&mut sessions, QoS::AtMostOnce, 1), 8);
    assert_eq!(deliver(&mut sessions, QoS::AtLeastOnce, 3), 11, "they were routed before");
    assert_eq!(dropped(&sessions), 1);
    // Publishers no longer wait.
    capacity.give_up();
    assert_eq!(deliver(&mut sessions, QoS::AtLeastOnce, 1), 11);
    assert_eq!(dropped(&sessions), 2);
    for number in 1..=5 {
        assert!(capacity.is_given_up());
        let answer = [Answered { kind: Kind::PubAck, id: id(number), failed: false }];
        sessions.answered((key, connection_id), &answer);
        let _ = sessions.pull((key, connection_id), &mut Vec::new(), at(0), (Waker::noop(), None));
    }
    assert!(capacity.is_given_up(), "6 are left, which is three quarters");
    let answer = [Answered { kind: Kind::PubAck, id: id(6), failed: false }];
    sessions.answered((key, connection_id), &answer);
    let _ = sessions.pull((key, connection_id), &mut Vec::new(), at(0), (Waker::noop(), None));
    assert!(!capacity.is_given_up() && !capacity.is_full());
    assert_eq!(deliver(&mut sessions, QoS::AtLeastOnce, 4), 9);
    assert!(capacity.is_full());
    // Publishers do not wait for a node that is not connected.
    sessions.close(key, connection_id, Closing { will: false, expiry: None }, at(0));
    assert!(!capacity.is_full());
    assert_eq!(deliver(&mut sessions, QoS::AtLeastOnce, 1), 9);
    assert_eq!(dropped(&sessions), 3);
}
