//! Messages for a node whose queue is full.

use phalanx_mqtt::PacketId;

use super::*;
use crate::requests::NODE_FULL;

/// A message of the publisher with this slot.
fn of(publisher: u32, topic: &str, delivery: Delivery) -> Arc<Message> {
    let (payload, properties) = (&b"x"[..], Properties::NONE);
    let publish = Publish { topic, payload, delivery, retain: false, duplicate: false, properties };
    let mut message = Message::of(&publish, topic, (key(publisher), 0), Duration::ZERO);
    // Messages of publisher 7 come from another node.
    message.source = if publisher == 7 { Source::Node } else { Source::Here };
    Arc::new(message)
}

#[test]
fn only_publishers_of_what_a_full_node_wants_wait() {
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    let peers = Peers::new("a");
    table.router.peers = Some(peers.clone());
    let there = node(2, "b");
    let capacity = peers.node_capacities.of(&there.identity.client);
    table.router.subscribe(there, vec![request("there")]);
    table.router.subscribe(client(1), vec![request("#")]);
    let (once, least) = (Delivery::AtMostOnce, Delivery::AtLeastOnce(PacketId::MIN));
    let all = [
        of(5, "there", once),
        of(5, "here", least),
        of(5, "there", least),
        of(6, "here", least),
        // It follows a message that waits.
        of(5, "here", once),
        of(6, "there", least),
        of(7, "there", least),
    ];
    let route = |table: &mut Table| {
        let (mut batches, mut reasons) = ([DeliveryBatch::default()], Vec::new());
        let at = (&*table.policy, Duration::ZERO);
        table.router.publish(&all, &mut batches, at, (usize::MAX, &mut reasons));
        let held: Vec<_> = reasons.iter().map(|reason| *reason == NODE_FULL).collect();
        let full = [5, 6, 7].map(|slot| table.router.full_node_of(Some(key(slot))).is_some());
        table.router.end_waits();
        (held, full, batches[0].count)
    };
    let (t, f) = (true, false);
    assert_eq!(route(&mut table), (vec![f; 7], [f; 3], 10));
    capacity.fill();
    assert_eq!(route(&mut table), (vec![f, f, t, f, t, t, f], [t, t, f], 5));
    table.router.insist(Some(key(5)));
    assert_eq!(route(&mut table), (vec![f, f, f, f, f, t, f], [f, t, f], 8));
    capacity.give_up();
    assert_eq!(route(&mut table), (vec![f; 7], [f; 3], 10));
}
