//! Subscriptions of a session.

use super::*;

#[test]
fn the_number_of_subscriptions_is_limited() {
    let mut sessions = with(Limits { subscription_bytes: 10_000, ..Limits::default() });
    let Opened { key, connection_id, .. } = open(&mut sessions, true, at(0));
    let subscribe = |sessions: &mut Sessions, filter: &str| {
        let wanted = SubscriptionRequest {
            key: filter.into(),
            content: None,
            options: SubscribeOptions::default(),
            identifier: None,
            covered: Covered::UNKNOWN,
            only_at_most_once: false,
        };
        sessions.subscribe(key, connection_id, vec![Ok(wanted)]).0[0]
    };
    let deep = "x/".repeat(190);
    assert_eq!(
        subscribe(&mut sessions, &deep),
        Reason::QUOTA_EXCEEDED,
        "the number of levels counts"
    );
    let granted = |n: &usize| subscribe(&mut sessions, &format!("t/{n}")) == Reason::SUCCESS;
    let granted = (0..100).take_while(granted).count();
    assert!((5..30).contains(&granted), "{granted}");
    assert_eq!(subscribe(&mut sessions, "t/0"), Reason::SUCCESS, "the subscription exists already");
    sessions.unsubscribe(key, connection_id, &["t/0".into(), "t/1".into()]);
    assert_eq!(subscribe(&mut sessions, "t/new"), Reason::SUCCESS);
    sessions.close(key, connection_id, Closing { will: false, expiry: Some(0) }, at(0));
    assert_eq!(sessions.counters.subscription_bytes.get(), 0);
}

#[test]
fn a_connection_that_was_taken_over_removes_no_subscription() {
    let mut sessions = sessions();
    let earlier = open(&mut sessions, false, at(0));
    let Opened { key, connection_id, .. } = open(&mut sessions, false, at(1));
    sessions.get(key).unwrap().keys.insert("t".into(), SubscriptionSize::default());
    assert_eq!(sessions.unsubscribe(key, earlier.connection_id, &["t".into()]), None);
    assert_eq!(sessions.get(key).unwrap().keys.len(), 1);
    let removed = sessions.unsubscribe(key, connection_id, &["t".into()]);
    assert_eq!(removed, Some(vec![Some(SubscriptionSize::default())]));
}

/// The text of each filter expands to the largest number of conditions. Keys without a subscription do not count.
#[test]
fn subscriptions_are_removed_in_chunks() {
    let mut sessions = sessions();
    let Opened { key, connection_id, .. } = open(&mut sessions, true, at(0));
    let either: Vec<_> = (0..8).map(|n| format!("(c{n} < 1 OR d{n} > 1)")).collect();
    let others: Vec<_> = (0..56).map(|n| format!("x{n} > 1")).collect();
    let text = format!("{} AND {}", either.join(" AND "), others.join(" AND "));
    let keys: Vec<Box<str>> = (0..5).map(|n| format!("{n}\0\0{text}").into()).collect();
    let request = |key: &str| {
        Ok(SubscriptionRequest {
            key: key.into(),
            content: parse_key(key).unwrap().content,
            options: SubscribeOptions::default(),
            identifier: None,
            covered: Covered::UNKNOWN,
            only_at_most_once: false,
        })
    };
    let requests = || keys.iter().map(|key| request(key)).collect();
    sessions.subscribe(key, connection_id, requests());
    let removed = sessions.unsubscribe(key, connection_id, &keys).unwrap();
    assert_eq!(removed.len(), 2, "in the first chunk");
    let removed = sessions.unsubscribe(key, connection_id, &keys).unwrap();
    assert_eq!(removed.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true, true]);
    sessions.subscribe(key, connection_id, requests());
    let closing = Closing { will: false, expiry: Some(0) };
    let (_, chunks) = sessions.close(key, connection_id, closing, at(0)).forget.remove(0);
    assert_eq!(chunks.iter().map(|chunk| chunk.len()).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(sessions.counters.subscription_bytes.get(), 0);
}
