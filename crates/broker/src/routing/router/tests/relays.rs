//! Messages of lost nodes for other nodes.

use super::*;
use crate::model::delivery::How;
use crate::model::handed::{adoption_id, cut, mark};
use crate::peers::handovers::handover_client;
use crate::requests::{Handed, HandingOver, LastHanded};

/// A client with this identifier. Its slot is also the ID of its session.
fn named(slot: u32, client: &str, has_messages: bool) -> Subscriber {
    let identity = Identity { user: None, client: client.into() };
    let durable_id = u64::from(slot);
    Subscriber { key: key(slot), durable_id, identity, adoptions: None, has_messages }
}

/// Relays messages of node `l.1` from the session in this slot. Returns the slots of their receivers.
fn relay(
    table: &mut Table,
    from: u32,
    to: Option<u32>,
    messages: &[(&Arc<Message>, How)],
    are_all: bool,
) -> Vec<(u32, Source)> {
    relay_for(table, (from, to, None), messages, are_all)
}

/// Like [`relay`], perhaps after an adoption.
fn relay_for(
    table: &mut Table,
    (from, to, adoption): (u32, Option<u32>, Option<u32>),
    messages: &[(&Arc<Message>, How)],
    are_all: bool,
) -> Vec<(u32, Source)> {
    let messages = messages.iter();
    let handed = messages.map(|(message, how)| Handed {
        message: Arc::clone(message),
        how: how.clone(),
        number: 1,
    });
    let last = are_all.then_some(LastHanded { session: None });
    let (from, to, messages) = (u64::from(from), to.map(key), handed.collect());
    let publisher = Some(format!("{NODE_CLIENTS}l.1").into());
    let own = HandingOver { from, to, adoption, publisher, messages, last };
    let mut batches = [DeliveryBatch::default()];
    table.router.hand_over(own, &mut batches, (&table.policy, Duration::ZERO));
    let [batch] = batches;
    let all = batch.deliveries.iter();
    all.map(|delivery| (delivery.client.slot, batch.messages[delivery.message as usize].source))
        .collect()
}

#[test]
fn messages_for_a_node_are_behind_those_that_a_lost_node_had_for_it() {
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    let (node, t) = (format!("{NODE_CLIENTS}p.1"), || message("t", false, &[]));
    table.router.subscribe(named(1, &node, false), vec![request("t")]);
    assert_eq!(table.publish(&[t()]), [[1]]);
    let all = [("l.1", 5), ("m.1", 4), ("none.1", 3)];
    for (journal, slot) in all {
        let client = named(slot, &handover_client(journal, "p.1"), slot > 3);
        table.router.subscribe(client, Vec::new());
    }
    table.router.subscribe(named(6, &handover_client("l.1", "q.1"), true), Vec::new());
    assert_eq!(table.publish(&[t()]), [[4]], "the one that ends last");
    // The receiver would take the mark for the end of this node's handover.
    let with = |identifiers| How { identifiers, ..How::default() };
    let (own, cutting) = (t(), Arc::new(Message::cut(Vec::new())));
    let handed = [(&own, How::default()), (&own, with(mark(7))), (&cutting, with(cut()))];
    let relayed = relay(&mut table, 5, Some(1), &handed, true);
    assert_eq!(relayed, [(1, Source::Here), (1, Source::Cut)]);
    assert_eq!(table.publish(&[t()]), [[4]]);
    relay(&mut table, 4, Some(1), &[], false);
    assert_eq!(table.publish(&[t()]), [[4]], "there are more");
    relay(&mut table, 4, Some(1), &[], true);
    assert_eq!(table.publish(&[t()]), [[1]]);
    // The node becomes known only now.
    let late = format!("{NODE_CLIENTS}q.1");
    table.router.subscribe(named(2, &late, false), vec![request("t")]);
    assert_eq!(table.publish(&[t()]), [[1, 6]]);
    table.router.forget(key(6), &[]);
    assert_eq!(table.publish(&[t()]), [[1, 2]], "the session has expired");
}

#[test]
fn messages_that_a_lost_node_had_for_this_one_are_its_own() {
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    table.router.subscribe(named(1, &format!("{NODE_CLIENTS}l.1"), false), Vec::new());
    table.router.subscribe(named(2, &format!("{NODE_CLIENTS}p.1"), false), vec![request("t")]);
    table.router.subscribe(named(3, "client", false), vec![request("t")]);
    table.router.subscribe(named(4, &handover_client("l.1", ""), true), Vec::new());
    let (own, how) = (message("t", true, &[]), How { retain: true, ..How::default() });
    let marking = How { identifiers: mark(7), ..how.clone() };
    let handed = [(&own, how), (&own, marking)];
    let relayed = relay(&mut table, 4, None, &handed, true);
    // The lost node had queued the message for the other node itself.
    assert_eq!(relayed, [(3, Source::Node)]);
    assert!(table.router.retained().has("t"));
}

/// The client's session was adopted from node `p.1`, and then from `q.1`.
#[test]
fn an_adopted_session_gets_the_messages_of_another_lost_node_once() {
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    table.router.peers = Some(Peers::new("a"));
    let [p, q, r] = ["p.1", "q.1", "r.1"].map(adoption_id);
    let adoptions = Some([p, q].into());
    let client = Subscriber { adoptions, ..named(1, "client", false) };
    table.router.subscribe(client, vec![request("t")]);
    table.router.subscribe(named(2, &handover_client("p.1", "l.1"), false), Vec::new());
    table.router.subscribe(named(3, &handover_client("q.1", "r.1"), false), Vec::new());
    table.router.subscribe(named(4, &handover_client("l.1", "q.1"), true), Vec::new());
    let own = message("t", false, &[]);
    let mut relayed = |adoption, how: How| {
        let relayed = relay_for(&mut table, (4, None, Some(adoption)), &[(&own, how)], false);
        relayed.len()
    };
    assert_eq!(relayed(q, How::default()), 0, "node l.1 has queued it for p.1, too");
    assert_eq!(relayed(p, How::default()), 1);
    assert_eq!(relayed(r, How::default()), 0);
    relayed(q, How { identifiers: mark(p), ..How::default() });
    assert_eq!([p, q, r].map(|adoption| relayed(adoption, How::default())), [1, 1, 0]);
}
