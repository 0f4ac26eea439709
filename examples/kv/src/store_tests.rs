//! Tests of a partition's state with a simulated clock.

use std::collections::HashSet;
use std::hash::RandomState;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const NOW: Duration = Duration::from_secs(100);

fn key(name: &str) -> Key {
    thread_local! {
        static HASHER: RandomState = RandomState::new();
    }
    HASHER.with(|hasher| Key::new(name.as_bytes(), hasher))
}

fn set(store: &mut Store, name: &str, set: Set, now: Duration) -> Reply {
    store.apply(key(name), Action::Set(set), now)
}

fn value(value: &'static str) -> Set {
    Set { value: Bytes::from(value), ..Set::default() }
}

#[test]
fn set_respects_its_conditions() {
    let mut store = Store::default();
    let (absent, present) = (Some(OnlyIf::Absent), Some(OnlyIf::Present));
    assert_eq!(set(&mut store, "k", Set { only_if: present, ..value("a") }, NOW), Reply::Nil);
    assert_eq!(set(&mut store, "k", Set { only_if: absent, ..value("b") }, NOW), Reply::OK);
    assert_eq!(set(&mut store, "k", Set { only_if: absent, ..value("c") }, NOW), Reply::Nil);
    let conditional = Set { only_if: present, get: true, ..value("d") };
    assert_eq!(set(&mut store, "k", conditional, NOW), Reply::bulk("b"));
    assert_eq!(store.apply(key("k"), Action::Get, NOW), Reply::bulk("d"));
}

#[test]
fn expired_keys_are_absent() {
    let (mut store, second) = (Store::default(), Duration::from_secs(1));
    let left = |store: &mut Store, now| store.apply(key("k"), Action::TimeLeft(1000), now);
    set(&mut store, "k", Set { expires: Some(2 * second), ..value("a") }, NOW);
    assert_eq!(left(&mut store, NOW), Reply::Integer(2));
    assert_eq!(store.apply(key("k"), Action::Get, NOW + second), Reply::bulk("a"));
    assert_eq!(store.scan(usize::MAX, 9, b"*", NOW + 2 * second), (0, vec![]));
    assert_eq!(store.apply(key("k"), Action::Get, NOW + 2 * second), Reply::Nil);
    assert_eq!(left(&mut store, NOW), Reply::Integer(-2));
    set(&mut store, "k", value("a"), NOW);
    assert_eq!(left(&mut store, NOW), Reply::Integer(-1));
    assert_eq!(store.apply(key("k"), Action::Expire(None), NOW), Reply::Integer(1));
    assert_eq!(store.apply(key("k"), Action::Expire(Some(second)), NOW), Reply::Integer(0));
}

#[test]
fn numbers_do_not_wrap() {
    let mut store = Store::default();
    assert_eq!(store.apply(key("n"), Action::Add(i64::MAX), NOW), Reply::Integer(i64::MAX));
    assert!(matches!(store.apply(key("n"), Action::Add(1), NOW), Reply::Error(_)));
    assert_eq!(store.apply(key("n"), Action::Add(-1), NOW), Reply::Integer(i64::MAX - 1));
    assert_eq!(store.apply(key("n"), Action::Append(b"x".to_vec()), NOW), Reply::Integer(20));
    assert!(matches!(store.apply(key("n"), Action::Add(1), NOW), Reply::Error(_)));
}

#[test]
fn values_do_not_grow_beyond_the_limit_of_an_argument() {
    let mut store = Store::default();
    let full = Action::Append(vec![b'a'; MAX_BULK]);
    assert_eq!(store.apply(key("k"), full, NOW), Reply::Integer(MAX_BULK as i64));
    let more = |store: &mut Store| store.apply(key("k"), Action::Append(vec![b'a']), NOW);
    assert!(matches!(more(&mut store), Reply::Error(_)));
    assert_eq!(store.apply(key("k"), Action::Length, NOW), Reply::Integer(MAX_BULK as i64));
}

proptest! {
    /// An iteration in small steps, with removals and insertions in between, returns every key that exists
    /// throughout; a sweep leaves no expired key.
    #[test]
    fn a_scan_misses_nothing(
        keys in 1usize..60,
        step in 1usize..9,
        changes in proptest::collection::vec((any::<bool>(), 0usize..80), 0..60),
    ) {
        let mut store = Store::default();
        let name = |n: usize| format!("k{n}");
        for n in 0..keys {
            set(&mut store, &name(n), value("v"), NOW);
        }
        let mut always: HashSet<usize> = (0..keys).collect();
        let (mut found, mut changes) = (HashSet::new(), changes.into_iter());
        let mut before = usize::MAX;
        while before > 0 {
            let replies;
            (before, replies) = store.scan(before, step, b"*", NOW);
            found.extend(replies.into_iter().map(|reply| match reply {
                Reply::Bulk(key) => key,
                other => panic!("{other:?}"),
            }));
            for (insert, n) in changes.by_ref().take(2) {
                if insert {
                    set(&mut store, &name(n), value("v"), NOW);
                } else {
                    always.remove(&n);
                    store.apply(key(&name(n)), Action::Delete, NOW);
                }
            }
        }
        for n in always {
            prop_assert!(found.contains(name(n).as_bytes()), "missed {}", n);
        }
        for n in 0..keys / 2 {
            store.apply(key(&name(n)), Action::Expire(Some(Duration::from_secs(1))), NOW);
        }
        let (later, mut before) = (NOW + Duration::from_secs(2), usize::MAX);
        let alive = store.scan(before, usize::MAX, b"*", later).1.len();
        while before > 0 {
            before = store.sweep(before, step, later);
        }
        prop_assert_eq!(store.count(), alive);
    }
}
