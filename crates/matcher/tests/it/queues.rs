//! Queues at pieces find the subscriptions that evaluating every filter finds, and return events in order,
//! whichever piece runs when, and while the index changes.

use std::borrow::Borrow;

use crate::common::World;
use fastrand::Rng;
use phalanx_matcher::{Event, Filter, Index, Options, Queues, Subscription};

/// An event with its number and the subscriptions it must satisfy.
struct Item {
    number: usize,
    event: Event,
    expected: Vec<Subscription>,
}

impl Borrow<Event> for Item {
    fn borrow(&self) -> &Event {
        &self.event
    }
}

type Model = Vec<(Subscription, Filter)>;

fn item(number: usize, queues: &Queues<Item>, model: &Model, world: World, rng: &mut Rng) -> Item {
    let event = crate::common::event(world, rng);
    let event = crate::common::borrowed(&event);
    let holds = model.iter().filter(|(_, filter)| filter.matches(&event));
    let mut expected: Vec<_> = holds.map(|(subscription, _)| *subscription).collect();
    expected.sort_unstable();
    Item { number, event: queues.snapshot().event(&event), expected }
}

fn filter(world: World, rng: &mut Rng) -> Filter {
    loop {
        if let Ok(filter) = Filter::parse(&crate::common::filter(world, rng)) {
            return filter;
        }
    }
}

/// Settles the finished events and checks them. `next` is the number of the next event.
fn settle(queues: &mut Queues<Item>, next: &mut usize, note: &str) {
    queues.settle(|item, found| {
        assert_eq!(item.number, *next, "{note}: in order");
        found.sort_unstable();
        assert_eq!(*found, item.expected, "{note}: event {}", item.number);
        *next += 1;
    });
}

/// Pushes events, runs pieces and changes the index at random.
fn rounds(world: World, capacity: usize, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut index = Index::new(Options { seed, multiple: rng.bool(), ..Options::default() });
    let mut model: Model = Vec::new();
    let mut queues: Queues<Item> = Queues::new(index.snapshot(), capacity);
    let (mut pushed, mut settled) = (0, 0);
    let note = format!("seed {seed}");
    for _ in 0..600 {
        match rng.u8(..20) {
            // The index changes while events wait.
            0..6 => {
                let filter = filter(world, &mut rng);
                model.push((index.insert(&filter), filter));
            }
            6 if !model.is_empty() => {
                let at = rng.usize(..model.len());
                assert!(index.remove(model.swap_remove(at).0));
            }
            7 => {
                while queues.run_oldest().is_some() {}
                settle(&mut queues, &mut settled, &note);
                assert_eq!(settled, pushed, "{note}: the queues are empty");
                queues.adopt(index.snapshot());
            }
            8 => _ = queues.run_ready(),
            9 | 10 => _ = queues.run_oldest(),
            11 => settle(&mut queues, &mut settled, &note),
            // The expectation holds for the queues' snapshot, so it is valid only until the index changes again.
            _ => {
                while queues.run_oldest().is_some() {}
                settle(&mut queues, &mut settled, &note);
                queues.adopt(index.snapshot());
                for _ in 0..rng.usize(..40) {
                    if !queues.has_room() {
                        _ = queues.run_oldest();
                        settle(&mut queues, &mut settled, &note);
                        continue;
                    }
                    queues.push(item(pushed, &queues, &model, world, &mut rng));
                    pushed += 1;
                }
            }
        }
        assert_eq!(queues.len(), pushed - settled);
    }
    while queues.run_oldest().is_some() {}
    settle(&mut queues, &mut settled, &note);
    assert!(queues.is_empty() && queues.touched() == 0);
    assert!(pushed > 100, "{note}: {pushed} events");
}

#[test]
fn queues_agree_with_evaluation() {
    for seed in 0..6 {
        rounds(World { names: 3, constants: 5, depth: 2 }, 1 + seed as usize * 7, seed);
        rounds(World { names: 12, constants: 40, depth: 1 }, 64, seed);
    }
}

#[test]
fn profitable_pieces_wait_and_others_run_at_once() {
    let mut rng = Rng::with_seed(5);
    let mut index = Index::new(Options { multiple: false, ..Options::default() });
    // All filters under `hot` apply to every event; hardly any two events share a filter under `rare`.
    let mut filters = vec![Filter::parse("hot IS NOT NULL").unwrap()];
    filters.extend((0..3000).map(|n| Filter::parse(&format!("rare = {n}")).unwrap()));
    let subscriptions = index.insert_all(&filters);
    let mut queues: Queues<Item> = Queues::new(index.snapshot(), 1024);
    let (mut settled, mut queued, mut unqueued) = (0, 0, 0);
    for number in 0..20_000 {
        let rare = rng.usize(..3000);
        let values = [("rare", (rare as i64).into()), ("hot", 1.into())];
        let hot = rng.u8(..8) == 0;
        let values = if hot { &values[..] } else { &values[..1] };
        let mut expected = vec![subscriptions[1 + rare]];
        expected.extend(hot.then_some(subscriptions[0]));
        expected.sort_unstable();
        let event = queues.snapshot().event(values);
        queues.push(Item { number, event, expected });
        let before = settled;
        settle(&mut queues, &mut settled, "before any piece runs");
        unqueued += settled - before;
        while queues.run_ready().is_some() {
            queued += 1;
        }
        while !queues.has_room() {
            assert!(queues.run_oldest().is_some());
            settle(&mut queues, &mut settled, "run");
        }
    }
    while queues.run_oldest().is_some() {}
    settle(&mut queues, &mut settled, "the end");
    assert_eq!(settled, 20_000);
    assert!(queued > 5, "profitable pieces: {queued}");
    assert!(unqueued > 100, "events that did not wait: {unqueued}");
}

#[test]
#[should_panic(expected = "the queues hold events of another snapshot")]
fn a_new_snapshot_waits_for_queued_events() {
    let mut index = Index::new(Options::default());
    index.insert(&Filter::parse("a < 5").unwrap());
    let mut queues: Queues<Event> = Queues::new(index.snapshot(), 4);
    queues.push(queues.snapshot().event(&[("a", 4.into())]));
    queues.adopt(index.snapshot());
}
