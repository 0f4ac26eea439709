//! Retained messages of other nodes of a cluster.

use super::*;
use crate::model::stamp::Stamp;
use crate::requests::ChangedRequest;

/// Messages and deletions of another node, in the order in which they were published. All expire, if `expiry` is given.
fn stamped(payloads: &[&[u8]], expiry: Option<u32>) -> Vec<Arc<Message>> {
    let expiry = expiry.map(Property::MessageExpiry);
    let mut stamp = Stamp::default();
    let of = |payload: &&[u8]| {
        let own = with_payload("t", payload, true, expiry.as_slice());
        let mut own = Arc::try_unwrap(own).unwrap();
        stamp = stamp.next(Duration::from_secs(1_800_000_000), "b");
        own.set_stamp(stamp);
        own.source = Source::Node;
        Arc::new(own)
    };
    payloads.iter().map(of).collect()
}

/// A node with these messages from its journal.
fn of_node(retained: Vec<Arc<Message>>) -> Table {
    let restored = RecoveredRoutes { retained, ..Default::default() };
    let mut table = Table::new(&Limits::default(), restored);
    table.router.peers = Some(Peers::new("a"));
    table
}

/// The stamps of the messages and deletions that arrived since a second.
fn changed(table: &Table, since: u64) -> Vec<Stamp> {
    let request = ChangedRequest { since: Duration::from_secs(since), after: None };
    let (changed, next) = table.router.retained().changed(&request);
    assert!(next.is_none());
    changed.iter().map(|message| message.stamp()).collect()
}

#[test]
fn the_latest_message_of_any_node_is_retained() {
    for last in [&b"last"[..], b""] {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut table = of_node(Vec::new());
            table.router.subscribe(client(1), vec![request("t")]);
            let all = stamped(&[b"first", b"", last], None);
            for n in order {
                assert_eq!(table.publish(&all[n..=n]), [[1]], "all are delivered");
            }
            let retained = table.router.retained();
            assert_eq!(retained.holds(&all[2]), !last.is_empty(), "{order:?}");
            assert_eq!(retained.has("t"), !last.is_empty(), "{order:?}");
            assert_eq!(changed(&table, 0), [all[2].stamp()]);
        }
    }
}

/// A node that restarts still knows that the deletion is later than the message.
#[test]
fn deletions_of_a_cluster_are_recorded() {
    let all = stamped(&[b"first", b""], None);
    let later_first = vec![all[1].clone(), all[0].clone()];
    assert_eq!(records(&Limits::default(), Some(Peers::new("a")), later_first), ["+t"]);
    let mut table = of_node(vec![Arc::new(all[1].deletion(Duration::from_secs(1)))]);
    table.publish(&all[..1]);
    assert_eq!((table.router.retained().count(), table.router.retained().has("t")), (0, false));
    // Other nodes may lack what was recovered, unless they had a lane to this process.
    assert_eq!((changed(&table, 0).len(), changed(&table, 1).len()), (1, 0));
    table.router.sweep(Duration::from_secs(1));
    assert!(table.router.retained().deletion("t").is_none(), "it is forgotten");
}

/// Another node may not have got the message that expires.
#[test]
fn an_expired_message_still_replaces_an_earlier_one() {
    let mut table = of_node(Vec::new());
    let (old, new) = (stamped(&[b"old"], None), stamped(&[b"", b"new"], Some(5)));
    table.publish(&[old[0].clone(), new[1].clone()]);
    table.router.sweep(Duration::from_secs(6));
    assert_eq!((table.router.retained().has("t"), table.router.retained().count()), (false, 0));
    assert_eq!(changed(&table, 6), [new[1].stamp()]);
    table.publish(&old);
    assert!(!table.router.retained().has("t"));
    assert_eq!(table.drops.count(DropReason::RetainedExpired), 1);
    table.router.sweep(Duration::from_secs(3 * 3600));
    assert!(changed(&table, 0).is_empty());
    assert_eq!(table.drops.count(DropReason::RetainedExpired), 1, "a deletion is no message");
}

#[test]
fn the_memory_of_deletions_is_bounded() {
    let mut table = of_node(Vec::new());
    let mut stamp = Stamp::default();
    let topic = |n: usize| format!("{n:02}{}", "/level".repeat(10_000));
    for n in 0..200 {
        let mut own = Arc::try_unwrap(with_payload(&topic(n), b"", true, &[])).unwrap();
        stamp = stamp.next(Duration::from_secs(1_800_000_000), "b");
        own.set_stamp(stamp);
        own.source = Source::Node;
        table.publish(&[Arc::new(own)]);
    }
    let remembered = changed(&table, 0).len();
    assert!((100..160).contains(&remembered), "{remembered} deletions of 120 KB");
    assert_eq!(table.router.retained().bytes(), 0);
}
