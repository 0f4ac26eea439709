//! The index finds exactly the subscriptions that evaluating every filter finds: over all operators and
//! types, while subscriptions come and go, one event at a time and in cohorts, with every instruction set.

use crate::common::World;
use fastrand::Rng;
use phalanx_matcher::{Event, Filter, Index, Matches, Options, Snapshot, Subscription, Tier};

type Attributes = Vec<(String, crate::common::Owned)>;

/// The subscriptions as a plain list.
#[derive(Clone, Default)]
struct Model(Vec<(Subscription, Filter)>);

impl Model {
    fn expected(&self, event: &Attributes) -> Vec<Subscription> {
        let event = crate::common::borrowed(event);
        let holds = self.0.iter().filter(|(_, filter)| filter.matches(&event));
        let mut found: Vec<_> = holds.map(|(subscription, _)| *subscription).collect();
        found.sort_unstable();
        found
    }

    /// Asserts that a snapshot finds the same subscriptions through every interface.
    fn check(&self, snapshot: &Snapshot, events: &[Attributes], note: &str) {
        let coded: Vec<Event> =
            events.iter().map(|event| snapshot.event(&crate::common::borrowed(event))).collect();
        let expected: Vec<Vec<Subscription>> =
            events.iter().map(|event| self.expected(event)).collect();
        let mut matches = Matches::new();
        for (event, expected) in coded.iter().zip(&expected) {
            matches.clear();
            snapshot.matches(event, &mut matches);
            let mut found = matches.subscriptions();
            found.sort_unstable();
            assert_eq!(found, *expected, "{note}: one event");
        }
        let cohort = |matches: &mut Matches| {
            let mut found = matches.all().to_vec();
            found.sort_unstable();
            let of = |at: usize| found.iter().filter(move |found| found.event as usize == at);
            (0..events.len())
                .map(|at| of(at).map(|found| found.subscription).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        matches.clear();
        snapshot.match_cohort(&coded, &mut matches);
        assert_eq!(cohort(&mut matches), expected, "{note}: a cohort");
        matches.clear();
        (0..3).for_each(|part| snapshot.match_part(&coded, part, 3, &mut matches));
        assert_eq!(cohort(&mut matches), expected, "{note}: in parts");
    }
}

fn filter(world: World, rng: &mut Rng) -> Filter {
    loop {
        if let Ok(filter) = Filter::parse(&crate::common::filter(world, rng)) {
            return filter;
        }
    }
}

/// Inserts, replaces and removes at random, with occasional checks.
fn churn(world: World, tier: Tier, seed: u64, steps: usize) {
    let mut rng = Rng::with_seed(seed);
    let options = Options { seed, tier: Some(tier), multiple: rng.bool(), ..Options::default() };
    let mut index = Index::new(options);
    let mut model = Model::default();
    let mut earlier: Option<(Snapshot, Model)> = None;
    let adapting = rng.bool();
    let note = |step: usize| format!("{tier:?}, seed {seed}, step {step}");
    for step in 0..steps {
        let some = |rng: &mut Rng, model: &Model| rng.usize(..model.0.len().max(1));
        match rng.u8(..100) {
            0..55 => {
                let filter = filter(world, &mut rng);
                let subscription = index.insert(&filter);
                assert!(model.0.iter().all(|(other, _)| *other != subscription));
                if let Some((_, before)) = &earlier {
                    let taken = before.0.iter().any(|(other, _)| *other == subscription);
                    assert!(!taken, "{}: a number that a snapshot has", note(step));
                }
                model.0.push((subscription, filter));
            }
            55..70 if !model.0.is_empty() => {
                let at = some(&mut rng, &model);
                model.0[at].1 = filter(world, &mut rng);
                index.replace(model.0[at].0, &model.0[at].1);
            }
            70..90 if !model.0.is_empty() => {
                let at = some(&mut rng, &model);
                let (subscription, _) = model.0.swap_remove(at);
                assert!(index.remove(subscription));
                assert!(!index.remove(subscription), "the subscription was removed before");
            }
            90..93 => {
                let filters: Vec<_> =
                    (0..rng.usize(..300)).map(|_| filter(world, &mut rng)).collect();
                model.0.extend(index.insert_all(&filters).into_iter().zip(filters));
            }
            93 => index.adapt(),
            94 => earlier = Some((index.snapshot(), model.clone())),
            95 => earlier = None,
            96..98 => drop(index.adapt_some(rng.usize(1..40))),
            _ => {}
        }
        if adapting {
            index.adapt_some(3);
        }
        assert_eq!(index.len(), model.0.len());
        if step % 97 == 96 || step + 1 == steps {
            let events: Vec<_> =
                (0..rng.usize(1..14)).map(|_| crate::common::event(world, &mut rng)).collect();
            model.check(&index, &events, &note(step));
            if let Some((snapshot, model)) = &earlier {
                model.check(snapshot, &events, &format!("{}, a snapshot", note(step)));
            }
        }
    }
    while let Some((subscription, _)) = model.0.pop() {
        assert!(index.remove(subscription));
    }
    assert!(index.is_empty());
    model.check(&index, &[crate::common::event(world, &mut rng)], "empty again");
    while index.adapt_some(1000) {}
    let left = index.shape();
    assert_eq!((left.slots, left.constants), (0, 0), "{}: {left:?}", note(steps));
}

fn churn_all(world: World, seeds: u64, steps: usize) {
    for tier in Tier::available() {
        for seed in 0..seeds {
            churn(world, tier, seed, steps);
        }
    }
}

#[test]
fn a_small_world_is_matched_exactly() {
    churn_all(World { names: 3, constants: 5, depth: 2 }, 3, 400);
}

#[test]
fn plain_conditions_fill_blocks() {
    churn_all(World { names: 2, constants: 3, depth: 0 }, 2, 800);
}

#[test]
fn more_slots_and_constants_than_a_byte_has() {
    churn_all(World { names: 40, constants: 900, depth: 1 }, 1, 900);
}

#[test]
fn more_slots_than_an_event_has_in_tables() {
    churn_all(World { names: 700, constants: 5, depth: 1 }, 1, 900);
}

#[test]
fn one_attribute_with_many_constants() {
    churn_all(World { names: 1, constants: 3000, depth: 1 }, 1, 900);
}

#[test]
fn pieces_are_split_and_go_on() {
    // One value that all filters require, and many rare ones: several pieces of each kind.
    let mut rng = Rng::with_seed(7);
    let mut index = Index::new(Options::default());
    let filters: Vec<Filter> = (0..40_000)
        .map(|n| {
            let low = rng.u8(..200);
            let key = if n % 3 == 0 { 1 } else { rng.u32(..400) };
            let text = format!("k = {key} AND a > {low} AND b <= {} AND c <> {low}", 250 - low);
            Filter::parse(&text).unwrap()
        })
        .collect();
    let subscriptions = index.insert_all(&filters);
    let shape = index.shape();
    assert!(shape.pieces > 3, "{shape:?}");
    let mut model = Model(subscriptions.into_iter().zip(filters).collect());
    let events: Vec<Attributes> = (0..6)
        .map(|n| {
            let number = |value: i64| crate::common::Owned::Number(value.to_string());
            let values = [("k", n % 3), ("a", 100), ("b", 60), ("c", 7)];
            values.map(|(name, value)| (name.to_owned(), number(value))).to_vec()
        })
        .collect();
    model.check(&index, &events, "split");
    for _ in 0..20_000 {
        let at = rng.usize(..model.0.len());
        assert!(index.remove(model.0.swap_remove(at).0));
    }
    model.check(&index, &events, "half removed");
    index.adapt();
    model.check(&index, &events, "filed again");
}

/// A thousand filters, each on one of several pairs of attributes.
fn pairs(names: &str, count: usize, rng: &mut Rng) -> Vec<Filter> {
    let of = |n: usize| names.as_bytes()[n] as char;
    let text = |rng: &mut Rng| {
        let (one, two, low) = (rng.u8(..30), rng.u8(..30), rng.u8(..200));
        format!("{} = {one} AND {} = {two} AND low > {low}", of(0), of(1))
    };
    (0..count).map(|_| Filter::parse(&text(rng)).unwrap()).collect()
}

#[test]
fn access_predicates_adapt_a_few_rows_at_a_time() {
    let mut rng = Rng::with_seed(11);
    let mut index = Index::new(Options::default());
    let mut model = Model::default();
    let event = |rng: &mut Rng| -> Attributes {
        let number = |value: u8| crate::common::Owned::Number(value.to_string());
        let mut event: Attributes =
            ["a", "b", "c", "d"].map(|name| (name.to_owned(), number(rng.u8(..30)))).to_vec();
        event.push(("low".to_owned(), number(150)));
        event
    };
    let events: Vec<Attributes> = (0..40).map(|_| event(&mut rng)).collect();
    // The index grows from nothing, and is correct at every moment.
    for (n, filter) in pairs("ab", 12_000, &mut rng).into_iter().enumerate() {
        model.0.push((index.insert(&filter), filter));
        index.adapt_some(8);
        if n % 1500 == 0 {
            model.check(&index, &events[..4], &format!("with {n}"));
        }
    }
    let grown = index.shape();
    assert_eq!(grown.multiple, 1, "{grown:?}");
    // New filters replace all others, and the abandoned schemas are dropped.
    let earlier = (index.snapshot(), model.clone());
    for (n, filter) in pairs("cd", 30_000, &mut rng).into_iter().enumerate() {
        let (subscription, old) = &mut model.0[n % 12_000];
        index.replace(*subscription, &filter);
        *old = filter;
        index.adapt_some(8);
        if n % 1500 == 0 {
            model.check(&index, &events[..4], &format!("{n} replaced"));
        }
    }
    while index.adapt_some(1000) {}
    let other = index.shape();
    assert_eq!((other.multiple, other.schemas), (1, 2), "{other:?}");
    assert!(other.pieces < 3 * grown.pieces, "numbers are reused: {grown:?}, {other:?}");
    model.check(&index, &events, "replaced");
    earlier.1.check(&earlier.0, &events, "an earlier snapshot");
    assert!(!index.adapt_some(8), "nothing remains to be done");
}

#[test]
fn chance_alone_makes_no_access_predicate() {
    // All attributes are equally selective, and all filters name two. Rows filed under these two need no probe under a
    // third schema.
    let mut rng = Rng::with_seed(5);
    let filters: Vec<Filter> = (0..20_000)
        .map(|_| {
            let mut value = || rng.u8(1..=35);
            let mut text = format!("a = {} AND b = {}", value(), value());
            let first = value() % 28;
            for other in 0..3 {
                text.push_str(&format!(" AND c{} = {}", first + other, value()));
            }
            Filter::parse(&text).unwrap()
        })
        .collect();
    let mut index = Index::new(Options { multiple: false, ..Options::default() });
    index.insert_all(&filters);
    let shape = index.shape();
    assert!(shape.schemas <= 4, "{shape:?}");
}

#[test]
fn snapshots_match_while_the_index_changes() {
    let world = World { names: 4, constants: 8, depth: 1 };
    let mut rng = Rng::with_seed(3);
    let mut index = Index::new(Options::default());
    let mut model = Model::default();
    let (send, receive) = std::sync::mpsc::sync_channel::<(Snapshot, Model, Vec<Attributes>)>(2);
    let reader = std::thread::spawn(move || {
        for (snapshot, model, events) in receive {
            model.check(&snapshot, &events, "on another thread");
        }
    });
    for _ in 0..60 {
        for _ in 0..20 {
            let filter = filter(world, &mut rng);
            model.0.push((index.insert(&filter), filter));
        }
        let at = rng.usize(..model.0.len());
        assert!(index.remove(model.0.swap_remove(at).0));
        let events = (0..5).map(|_| crate::common::event(world, &mut rng)).collect();
        send.send((index.snapshot(), model.clone(), events)).unwrap();
    }
    drop(send);
    reader.join().unwrap();
}

#[test]
#[should_panic(expected = "coded by another snapshot")]
fn an_event_of_another_snapshot_is_refused() {
    let mut index = Index::new(Options::default());
    index.insert(&Filter::parse("a < 5").unwrap());
    let event = index.event(&[("a", 4.into())]);
    index.insert(&Filter::parse("a < 4").unwrap());
    index.matches(&event, &mut Matches::new());
}

#[test]
fn rare_constants_are_labelled_too() {
    let filters = |count: usize, text: &dyn Fn(usize) -> String| -> Vec<Filter> {
        (0..count).map(|n| Filter::parse(&text(n)).unwrap()).collect()
    };
    let mut index = Index::new(Options::default());
    let first = filters(9000, &|n| format!("a = {} AND b > {}", n % 90, n % 10));
    let mut all = index.insert_all(&first);
    // The sample, whose constants get their labels first, skips every second filter.
    let more = filters(9000, &|n| format!("a = {} AND b > {} AND c < {}", n % 90, n % 301, n % 90));
    all.extend(index.insert_all(&more));
    for n in 0..40 {
        let event = [("a", (n * 2 + n % 2).into()), ("b", (n * 7).into()), ("c", 40.into())];
        let mut matches = Matches::new();
        index.matches(&index.event(&event), &mut matches);
        let mut found = matches.subscriptions();
        found.sort_unstable();
        let filters = first.iter().chain(&more).zip(&all);
        let expected: Vec<_> =
            filters.filter(|(filter, _)| filter.matches(&event)).map(|(_, id)| *id).collect();
        assert_eq!(found, expected, "event {n}");
    }
}

#[test]
fn filters_that_never_or_always_match() {
    let mut index = Index::new(Options::default());
    let never = index.insert(&Filter::parse("a = 1 AND a = 2").unwrap());
    let absent = index.insert(&Filter::parse("a IS NULL").unwrap());
    let mut matches = Matches::new();
    index.matches(&index.event(&[]), &mut matches);
    assert_eq!(matches.subscriptions(), [absent]);
    index.replace(never, &Filter::parse("b = 1 OR b = 2").unwrap());
    matches.clear();
    index.matches(&index.event(&[("a", 0.into()), ("b", 2.into())]), &mut matches);
    assert_eq!(matches.subscriptions(), [never]);
    assert!(index.remove(never) && index.remove(absent) && index.is_empty());
}

#[test]
fn a_cohort_with_too_many_matches_is_given_up() {
    for text in ["a = 1", "a = 1 OR b = 1"] {
        let mut index = Index::new(Options::default());
        index.insert_all(&vec![Filter::parse(text).unwrap(); 100]);
        let event = index.event(&[("a", 1.into())]);
        let mut matches = Matches::new();
        let mut within = |events: usize, max_matches: usize| {
            matches.clear();
            let is_complete =
                index.match_cohort_within(&vec![event.clone(); events], max_matches, &mut matches);
            (is_complete, matches.all().len())
        };
        assert_eq!(within(10, 1000), (true, 1000), "{text}");
        let (is_complete, count) = within(10, 999);
        assert!(!is_complete && count <= 1000, "{text}: {count}");
        assert_eq!(within(1, 10), (true, 100), "{text}: a single event");
    }
}
