//! Cuts for a moving session: they divide this node's messages, and the messages of nodes that send cuts.

use super::*;
use crate::access::NODE_CLIENTS;
use crate::model::moving::{Cut, CutNodes};
use crate::requests::JOURNAL_FULL;

const TOKEN: &str = "token";

/// A table of a node that has lanes to the nodes with these journals, and a session in slot 9.
fn table(journals: &[&str]) -> (Table, Arc<Peers>) {
    let (mut table, peers) =
        (Table::new(&Limits::default(), RecoveredRoutes::default()), Peers::new("a"));
    table.router.peers = Some(peers.clone());
    for (slot, journal) in (0..).zip(journals) {
        let identity = Identity { user: None, client: format!("{NODE_CLIENTS}{journal}").into() };
        let node = Subscriber {
            key: key(slot),
            durable_id: 0,
            identity,
            adoptions: None,
            has_messages: false,
        };
        table.router.subscribe(node, vec![request("t")]);
    }
    table.router.subscribe(client(9), vec![request("t")]);
    (table, peers)
}

fn cut(by: &str, at: &str) -> Cut {
    let [token, from, to, by, at] = [TOKEN, "h.1", "n.2", by, at].map(str::to_owned);
    Cut { token, from, to, by, at }
}

/// The receivers of cuts, and the nodes that made them.
fn receivers(batch: &DeliveryBatch) -> Vec<(u32, String)> {
    let cuts = batch.deliveries.iter().filter_map(|delivery| {
        let cut = Cut::read(&batch.messages[delivery.message as usize].payload)?;
        Some((delivery.client.slot, cut.by))
    });
    cuts.collect()
}

/// Routes a cut sent by the node in this slot. Returns the receivers.
fn comes(table: &mut Table, slot: u32, cut: &Cut) -> Vec<(u32, String)> {
    let mut own = Message::cut(cut.write());
    own.from = Some(key(slot));
    let mut batches = [DeliveryBatch::default()];
    let all = [message("t", false, &[]), Arc::new(own), message("t", false, &[])];
    table.router.publish_own(&all, &mut batches, (&table.policy, Duration::ZERO));
    // Cuts are between the deliveries of the preceding and the following messages.
    let is_cut = |n: u32| batches[0].messages[n as usize].source == Source::Cut;
    let places: Vec<_> =
        batches[0].deliveries.iter().map(|delivery| is_cut(delivery.message)).collect();
    let first = places.iter().position(|is_cut| *is_cut).unwrap_or(0);
    let last = places.iter().rposition(|is_cut| *is_cut).unwrap_or(0);
    assert!(places.is_empty() || !places[0] && !places[places.len() - 1]);
    assert!(places[first..=last].iter().all(|is_cut| *is_cut) || first == last);
    receivers(&batches[0])
}

#[test]
fn the_holder_divides_its_messages_for_all_nodes() {
    let (mut table, peers) = table(&["n.2", "x.3", "l.5"]);
    peers.moves.begin(&TOKEN.into(), key(9));
    let mut batches = [DeliveryBatch::default()];
    let known = |leased: &[&str], unready: &[&str]| {
        let [leased, unready] =
            [leased, unready].map(|all| all.iter().map(|name| (*name).to_owned()).collect());
        CutNodes { leased, unready }
    };
    let handing = known(&["n.2", "x.3"], &["l.5"]);
    assert_eq!(table.router.cut(&cut("h.1", ""), &handing, &mut batches), [""; 0]);
    assert_eq!(receivers(&batches[0]), [], "messages for a lost node are being handed over");
    // The lease of the lost node was deleted.
    let all = known(&["n.2", "w.4", "x.3"], &["n.2", "other.6"]);
    let nodes = table.router.cut(&cut("h.1", ""), &all, &mut batches);
    assert_eq!(nodes, ["n.2", "x.3"]);
    let h = || "h.1".to_owned();
    assert_eq!(receivers(&batches[0]), [(9, h()), (0, h()), (1, h())]);
    // The others follow.
    assert_eq!(comes(&mut table, 1, &cut("x.3", "h.1")), [(9, "x.3".into())]);
    peers.moves.end(TOKEN);
    assert_eq!(comes(&mut table, 0, &cut("n.2", "h.1")), []);
}

#[test]
fn other_nodes_follow_the_holder() {
    let (mut table, _) = table(&["h.1", "n.2"]);
    let own = || "x.3".to_owned();
    assert_eq!(comes(&mut table, 0, &cut("h.1", "x.3")), [(0, own()), (1, own())]);
    assert_eq!(comes(&mut table, 1, &cut("n.2", "x.3")), [], "only the holder");
    assert_eq!(comes(&mut table, 1, &cut("h.1", "x.3")), [], "passed on by another node");
}

#[test]
fn the_new_node_divides_its_messages_for_the_copy() {
    let (mut table, peers) = table(&["h.1", "x.3"]);
    peers.moves.begin(&TOKEN.into(), key(9));
    let came = comes(&mut table, 0, &cut("h.1", "n.2"));
    assert_eq!(came, [(9, "h.1".into()), (9, "n.2".into()), (0, "n.2".into())]);
    assert_eq!(comes(&mut table, 1, &cut("x.3", "n.2")), [(9, "x.3".into())]);
}

/// The lane sends both again, in order.
#[test]
fn a_cut_behind_a_refused_message_is_refused() {
    let (mut table, _) = table(&["h.1", "n.2"]);
    let (mut batches, mut reasons) = ([DeliveryBatch::default()], vec![JOURNAL_FULL]);
    let mut own = Message::cut(cut("h.1", "x.3").write());
    own.from = Some(key(0));
    let at = (&*table.policy, Duration::ZERO);
    table.router.publish(&[Arc::new(own)], &mut batches, at, (usize::MAX, &mut reasons));
    assert_eq!((reasons, receivers(&batches[0])), (vec![JOURNAL_FULL; 2], vec![]));
}

#[test]
fn subscriptions_of_a_client_are_found_by_key() {
    let (mut table, _) = table(&[]);
    let filters = ["a/+", "$where/x = 1/b", "c"];
    table.router.subscribe(client(3), filters.map(request).to_vec());
    let keys = ["a/+", "$where/x = 1/b", "d"].map(Box::from).to_vec();
    let found = table.router.subscriptions(key(3), keys);
    let keys: Vec<_> = found.iter().map(|(key, _)| &**key).collect();
    assert_eq!(keys, ["a/+", "$where/x = 1/b"]);
    assert_eq!(table.router.subscriptions(key(4), vec!["c".into()]), []);
}
