//! Retained messages of other nodes of a cluster.

use super::*;
use crate::model::stamp::Stamp;
use crate::requests::ChangedRequest;

/// Messages and deletions of other nodes, in the order in which they were published.
fn stamped(payloads: &[&[u8]]) -> Vec<Arc<Message>> {
    let mut stamp = Stamp::default();
    let of = |payload: &&[u8]| {
        let mut own = Arc::try_unwrap(with_payload("t", payload, true, &[])).unwrap();
        stamp = stamp.next(Duration::from_secs(1_800_000_000), "b");
        own.set_stamp(stamp);
        own.source = Source::Node;
        Arc::new(own)
    };
    payloads.iter().map(of).collect()
}

#[test]
fn the_latest_message_of_any_node_is_retained() {
    for last in [&b"last"[..], b""] {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
            table.router.peers = Some(Peers::new("a"));
            table.router.subscribe(client(1), vec![request("t")]);
            let all = stamped(&[b"first", b"", last]);
            for n in order {
                assert_eq!(table.publish(&all[n..=n]), [[1]], "all are delivered");
            }
            let retained = table.router.retained();
            assert_eq!(retained.holds(&all[2]), !last.is_empty(), "{order:?}");
            assert_eq!(retained.has("t"), !last.is_empty(), "{order:?}");
            let request =
                ChangedRequest { since: Some(Duration::ZERO), before: Duration::ZERO, after: None };
            let (changed, next) = retained.changed(&request);
            let stamps: Vec<_> = changed.iter().map(|own| own.stamp()).collect();
            assert_eq!((stamps, next), (vec![all[2].stamp()], None));
        }
    }
}

/// A node that restarts still knows that the deletion is later than the message.
#[test]
fn deletions_of_a_cluster_are_recorded() {
    let all = stamped(&[b"first", b""]);
    let later_first = vec![all[1].clone(), all[0].clone()];
    assert_eq!(records(&Limits::default(), Some(Peers::new("a")), later_first), ["+t"]);
    let restored = Message::deletion("t", all[1].stamp());
    let retained = vec![Arc::new(restored)];
    let mut table =
        Table::new(&Limits::default(), RecoveredRoutes { retained, ..Default::default() });
    table.router.peers = Some(Peers::new("a"));
    table.publish(&all[..1]);
    assert_eq!((table.router.retained().count(), table.router.retained().has("t")), (0, false));
}
