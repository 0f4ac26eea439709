//! Messages that this node held for a lost node.

use phalanx_mqtt::PacketId;

use super::*;
use crate::model::delivery::How;
use crate::requests::{Handed, HandingOver};

/// The IDs of sessions in the journal: of the publisher, of the lost node, and of the node that has adopted its sessions.
const PUBLISHER: u64 = 7;
const LOST: u64 = 4;
const ADOPTER: u64 = 5;

/// Subscribes a node whose session here has this ID and slot.
fn subscribe(table: &mut Table, id: u64, text: &str) -> ClientKey {
    let (slot, mut request) = (id as u32, request(text));
    request.options.qos = QoS::ExactlyOnce;
    let node = Subscriber { durable_id: id, ..node(slot, &id.to_string()) };
    table.router.subscribe(node, vec![request]);
    key(slot)
}

/// The records of the router.
fn records(table: &Table) -> Vec<String> {
    let of = |record| match record {
        Record::Message { .. } => "message".to_owned(),
        Record::Queue { session, delivery, .. } => format!("queue {} {}", session.0, delivery.0),
        Record::Incoming { session, packet } => format!("incoming {} {packet}", session.0),
        Record::Done { session, delivery } => format!("done {} {}", session.0, delivery.0),
        other => panic!("{other:?}"),
    };
    table.router.wal.recorded().records().map(of).collect()
}

/// The publisher may have released the packet identifier. If the identifier were recorded, this node would after a
/// restart mistake the next message with it for a duplicate.
#[test]
fn a_message_that_is_handed_over_does_not_arrive_again() {
    with_journal(0, |wal| async move {
        let nothing = RecoveredRoutes { next_message: 1, next_delivery: 1, ..Default::default() };
        let mut table = Table::with_wal(&Limits::default(), nothing, wal);
        subscribe(&mut table, LOST, "t");
        let to = Some(subscribe(&mut table, ADOPTER, "other"));
        let (topic, payload, retain, duplicate) = ("t", &b"x"[..], false, false);
        let (delivery, properties) = (Delivery::ExactlyOnce(PacketId::MIN), Properties::NONE);
        let publish = Publish { topic, payload, delivery, retain, duplicate, properties };
        let message = Arc::new(Message::of(&publish, topic, (key(9), PUBLISHER), Duration::ZERO));
        assert_eq!(table.publish(std::slice::from_ref(&message)), [[LOST as u32]]);
        let arrived = ["message", "queue 4 1", "incoming 7 1"];
        assert_eq!(records(&table), arrived);
        let how = How { qos: QoS::ExactlyOnce, ..How::default() };
        let messages = vec![Handed { message, how, number: 1 }];
        let (adoption, publisher) = (Some(6), None);
        let own = HandingOver { from: LOST, to, adoption, publisher, messages, last: None };
        let batches = &mut [DeliveryBatch::default()];
        table.router.hand_over(own, batches, (&table.policy, Duration::ZERO));
        assert_eq!(batches[0].count, 1);
        assert_eq!(records(&table), [&arrived[..], &["queue 5 2", "done 4 1"]].concat());
    });
}
