//! Shared subscriptions with members at other nodes.

use super::*;
use crate::model::subscriptions::group_id::group_id;
use crate::peers::members::Counts;

#[test]
fn nodes_get_messages_of_a_group_by_their_members() {
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    // With and without a condition.
    for (filter, published) in [("$share/g/t", "t"), ("$share/g/c?k=1", "c")] {
        for of in [client(1), node(2, "b"), node(3, "c")] {
            table.router.subscribe(of, vec![request(filter)]);
        }
        let own = message(published, false, &[Property::User("k", "1")]);
        let shares = |table: &mut Table| {
            let all: Vec<_> =
                (0..12).flat_map(|_| table.publish(std::slice::from_ref(&own))).flatten().collect();
            [1, 2, 3].map(|slot| all.iter().filter(|other| **other == slot).count())
        };
        assert_eq!(shares(&mut table), [4, 4, 4], "each has one member");
        let counts = |count| Counts { is_snapshot: true, changed: vec![(group_id(filter), count)] };
        table.router.set_online(Some(key(2)), counts(2));
        table.router.set_online(Some(key(3)), counts(0));
        assert_eq!(shares(&mut table), [4, 8, 0]);
        table.router.set_online(None, counts(4));
        assert_eq!(shares(&mut table), [8, 4, 0]);
        table.router.present(key(2), false);
        assert_eq!(shares(&mut table), [12, 0, 0]);
        table.router.present(key(2), true);
        table.router.set_online(None, Counts { is_snapshot: true, changed: Vec::new() });
        table.router.set_online(Some(key(3)), Counts { is_snapshot: true, changed: Vec::new() });
        assert_eq!(shares(&mut table), [3, 6, 3]);
        table.router.set_online(Some(key(2)), Counts { is_snapshot: true, changed: Vec::new() });
    }
}
