//! An index keeps nothing of removed subscriptions: their names, slots and constants are freed or reused.

use fastrand::Rng;
use phalanx_matcher::{Filter, Index, Literal, Matches, Options, Shape, Value};

/// A filter with unique names and constants, in all kinds of conditions.
fn own(n: u64) -> Filter {
    let text = format!(
        "(a{n} = 'x{n}' OR b{n} = {n}) AND c{n} <> 'y{n}' AND kept <> {n} AND d{n} > {n} AND e{n} LIKE 'z{n}%' AND \
         f{n} NOT BETWEEN {n} AND {n}.5 AND kept < {n} AND g{n} IS NOT NULL AND h{n} IS NULL AND i{n} = TRUE AND \
         text >= 'w{n}'"
    );
    Filter::parse(&text).expect(&text)
}

fn sizes(index: &Index) -> (usize, usize, usize) {
    let Shape { slots, ordered, constants, .. } = index.shape();
    (slots, ordered, constants)
}

#[test]
fn removed_filters_leave_no_names_and_constants() {
    let mut index = Index::new(Options::default());
    let kept = index.insert(&Filter::parse("kept > 5 AND text < 'm' AND other = 'o'").unwrap());
    let before = sizes(&index);
    for n in 0..2000 {
        let first = index.insert(&own(2 * n));
        let second = index.insert(&own(2 * n + 1));
        index.adapt_some(8);
        assert!(index.remove(first));
        index.adapt_some(8);
        assert!(index.remove(second));
        index.adapt_some(8);
    }
    while index.adapt_some(1000) {}
    assert_eq!(sizes(&index), before);
    assert!(index.bytes() < 1 << 20, "{}", index.bytes());
    let event = [("kept", 6.into()), ("text", "a".into()), ("other", "o".into())];
    let mut matches = Matches::new();
    index.matches(&index.event(&event), &mut matches);
    assert_eq!(matches.subscriptions(), [kept]);
}

#[test]
fn constants_of_an_added_equality_are_freed() {
    let mut index = Index::new(Options::default());
    let filter = Filter::parse("a > 5 OR b = 1").unwrap();
    let first = index.insert_with(&filter, "place", &Literal::Number(0.into()));
    let before = sizes(&index);
    for n in 1..1000 {
        let place = Literal::Number(n.into());
        let own = index.insert_with(&filter, "place", &place);
        // The filter requires a different place.
        let other = Filter::parse("place = 5000 OR place = 6000 AND a > 5").unwrap();
        let never = index.insert_with(&other, "place", &place);
        let event = [("a", 6.into()), ("place", Value::from(n))];
        let mut matches = Matches::new();
        index.matches(&index.event(&event), &mut matches);
        assert_eq!(matches.subscriptions(), [own]);
        assert!(index.remove(own) && index.remove(never));
    }
    assert_eq!(sizes(&index), before);
    assert!(index.remove(first));
    assert_eq!(sizes(&index), (0, 0, 0));
}

/// Narrow labels run out, and ranges with one narrow and one wide label leave no unused label behind.
#[test]
fn labels_of_removed_ranges_are_reused() {
    let mut rng = Rng::with_seed(1);
    let mut index = Index::new(Options::default());
    let mut all = Vec::new();
    for n in 0..6000 {
        let low = rng.i64(0..100_000);
        let text = format!("a BETWEEN {low} AND {}", low + rng.i64(0..1000));
        all.push(index.insert(&Filter::parse(&text).unwrap()));
        if n >= 500 {
            let at = rng.usize(..all.len());
            assert!(index.remove(all.swap_remove(at)));
        }
        assert!(index.shape().constants <= 2 * all.len(), "step {n}: {:?}", index.shape());
    }
    assert!(all.into_iter().all(|subscription| index.remove(subscription)));
    assert_eq!(sizes(&index), (0, 0, 0));
}

#[test]
fn an_attribute_whose_name_is_gone_is_ignored() {
    let mut index = Index::new(Options::default());
    let old = index.insert(&Filter::parse("old = 1").unwrap());
    let attribute = index.attribute("old").unwrap();
    assert!(index.remove(old));
    let new = index.insert(&Filter::parse("new = 1").unwrap());
    let mut matches = Matches::new();
    index.matches(&index.event_of([(attribute, 1.into())]), &mut matches);
    assert!(matches.subscriptions().is_empty());
    index.matches(&index.event(&[("new", 1.into())]), &mut matches);
    assert_eq!(matches.subscriptions(), [new]);
}
