//! Memory budget: a soft bound on the requests that begin keeps the cache for requests in progress.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::common::{Bench, alone};
use phalanx_core::{Graph, Ingress, Processor, SharedStage, oneshot, yield_now};
use proptest::prelude::*;

type Object = [u8; 8192];
/// Half of the cache fits seven requests, because their slots also take some bytes.
const CACHE: usize = 128 << 10;
const REQUESTS: usize = 100;

/// The current and the maximum number of requests in progress.
#[derive(Default)]
struct OnTheirWay {
    now: Cell<usize>,
    most: Cell<usize>,
    begun: Cell<usize>,
}

impl OnTheirWay {
    fn begins(&self) {
        self.begun.set(self.begun.get() + 1);
        self.now.set(self.now.get() + 1);
        self.most.set(self.most.get().max(self.now.get()));
    }

    fn ends(&self) {
        self.now.set(self.now.get() - 1);
    }
}

fn program(ingress: Ingress) -> (Processor, SharedStage<()>, SharedStage<()>) {
    let mut graph = Graph::new();
    graph.cache_bytes(CACHE);
    graph.ingress(ingress);
    let first = graph.stage("first").entry().object::<Object>("object").shared(());
    let second = graph.stage("second").object::<Object>("object").shared(());
    (alone(graph), first, second)
}

/// A hundred requests at once, each of which continues for a few turns without waiting.
fn rush(ingress: Ingress) -> (usize, u64) {
    let (processor, first, second) = program(ingress);
    let (world, requests) = (Bench::default(), Rc::new(OnTheirWay::default()));
    processor.enter(|| {
        for _ in 0..REQUESTS {
            let requests = requests.clone();
            let begin = move |_| async move {
                requests.begins();
                let work = move |_| async move {
                    for _ in 0..3 {
                        yield_now().await;
                    }
                    requests.ends();
                };
                second.dispatch(work).unwrap();
            };
            first.dispatch(begin).unwrap();
        }
    });
    while processor.turn(&world).ran > 0 {}
    assert_eq!((requests.begun.get(), requests.now.get(), processor.live()), (REQUESTS, 0, 0));
    (requests.most.get(), processor.control().processor(0).stages[0].throttled_turns)
}

#[test]
fn no_more_are_begun_than_fit_while_others_could_run() {
    let (most, postponed) = rush(Ingress::Budget);
    assert!((4..=7).contains(&most), "{most} at a time");
    assert!(postponed > 10, "{postponed}");
    // With the cohort bound alone, more requests begin.
    let (unbounded, postponed) = rush(Ingress::Throttle);
    assert!(unbounded > 2 * most && postponed == 0, "{unbounded}, {postponed}");
}

#[test]
fn waiting_requests_do_not_count() {
    let (processor, first, _) = program(Ingress::Budget);
    let (world, requests) = (Bench::default(), Rc::new(OnTheirWay::default()));
    let waiting: Rc<RefCell<Vec<oneshot::LocalSender<()>>>> = Rc::default();
    processor.enter(|| {
        for _ in 0..REQUESTS {
            let (requests, waiting) = (requests.clone(), waiting.clone());
            let begin = move |_| async move {
                requests.begins();
                let (sender, receiver) = oneshot::local();
                waiting.borrow_mut().push(sender);
                receiver.await;
                requests.ends();
            };
            first.dispatch(begin).unwrap();
        }
    });
    let mut turns = 0;
    while processor.turn(&world).ran > 0 {
        turns += 1;
    }
    // Each turn begins as many requests as fit, not just one, because the earlier requests wait.
    assert!(turns < REQUESTS / 2, "{turns} turns");
    // All requests wait at the same time, although no more than seven fit.
    assert_eq!((requests.begun.get(), requests.now.get()), (REQUESTS, REQUESTS));
    processor.enter(|| waiting.take().into_iter().for_each(|sender| sender.send(())));
    while processor.turn(&world).ran > 0 {}
    assert_eq!((requests.now.get(), processor.live()), (0, 0));
}

#[test]
fn one_that_never_fits_is_begun_when_nothing_else_can_run() {
    let mut graph = Graph::new();
    graph.cache_bytes(1);
    graph.ingress(Ingress::Budget);
    let entry = graph.stage("entry").entry().shared(());
    let busy = graph.shared("busy", ());
    let (processor, world) = (alone(graph), Bench::default());
    let (left, begun) = (Rc::new(Cell::new(5)), Rc::new(Cell::new(false)));
    processor.enter(|| {
        let count = left.clone();
        let work = move |_| async move {
            while count.get() > 0 {
                count.set(count.get() - 1);
                yield_now().await;
            }
        };
        busy.dispatch(work).unwrap();
        let begun = begun.clone();
        entry.dispatch(move |_| async move { begun.set(true) }).unwrap();
    });
    while left.get() > 0 {
        assert!(!begun.get(), "while something else runs");
        processor.turn(&world);
    }
    while processor.turn(&world).ran > 0 {}
    assert!(begun.get());
}

#[test]
fn one_that_never_fits_is_begun_after_a_while_also_where_others_never_rest() {
    let mut graph = Graph::new();
    graph.cache_bytes(1);
    graph.ingress(Ingress::Budget);
    let entry = graph.stage("entry").entry().shared(());
    let busy = graph.shared("busy", ());
    let (processor, world) = (alone(graph), Bench::default());
    let begun = Rc::new(Cell::new(false));
    processor.enter(|| {
        let until = begun.clone();
        let work = move |_| async move {
            while !until.get() {
                yield_now().await;
            }
        };
        busy.dispatch(work).unwrap();
        let begun = begun.clone();
        entry.dispatch(move |_| async move { begun.set(true) }).unwrap();
    });
    for _ in 0..9 {
        world.now.set(world.now.get() + 1_000_000);
        processor.turn(&world);
        assert!(!begun.get(), "at {} ns", world.now.get());
    }
    world.now.set(world.now.get() + 2_000_000);
    processor.turn(&world);
    assert!(begun.get());
}

/// A hundred requests return from I/O to the second stage at the same time, and each needs memory for the third stage.
/// Returns the maximum number of requests that a cohort of the second stage passed on.
fn passed_on_together(ingress: Ingress) -> usize {
    let mut graph = Graph::new();
    graph.cache_bytes(CACHE);
    graph.ingress(ingress);
    let first = graph.stage("first").entry().shared(());
    let second = graph.stage("second").object::<Object>("object").max_cohort(REQUESTS).shared(());
    let third = graph.stage("third").object::<Object>("object").max_cohort(REQUESTS).shared(());
    let (processor, world) = (alone(graph), Bench::default());
    let requests = Rc::new(OnTheirWay::default());
    let waiting: Rc<RefCell<Vec<oneshot::LocalSender<()>>>> = Rc::default();
    processor.enter(|| {
        for _ in 0..REQUESTS {
            let (requests, waiting) = (requests.clone(), waiting.clone());
            let work = move |_| async move {
                let (sender, receiver) = oneshot::local();
                waiting.borrow_mut().push(sender);
                receiver.await;
                requests.begins();
                third.dispatch(move |_| async move { requests.ends() }).unwrap();
            };
            first.dispatch(move |_| async move { second.dispatch(work).unwrap() }).unwrap();
        }
    });
    while processor.turn(&world).ran > 0 {}
    assert_eq!((requests.begun.get(), waiting.borrow().len()), (0, REQUESTS));
    processor.enter(|| waiting.take().into_iter().for_each(|sender| sender.send(())));
    while processor.turn(&world).ran > 0 {}
    assert_eq!((requests.begun.get(), requests.now.get(), processor.live()), (REQUESTS, 0, 0));
    requests.most.get()
}

#[test]
fn requests_that_return_at_once_are_bounded_at_every_stage() {
    assert_eq!(passed_on_together(Ingress::Budget), REQUESTS);
    let most = passed_on_together(Ingress::BudgetEveryStage);
    assert!((4..=7).contains(&most), "{most} at a time");
}

/// Passes a request to the stages of `way` in turn.
fn pass_on(stages: Rc<Vec<SharedStage<()>>>, mut way: Vec<(usize, u8)>, ended: Rc<Cell<usize>>) {
    let Some((stage, yields)) = way.pop() else { return ended.set(ended.get() + 1) };
    let handle = stages[stage];
    let work = move |_| async move {
        for _ in 0..yields {
            yield_now().await;
        }
        pass_on(stages, way, ended);
    };
    handle.dispatch(work).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// All requests end, whatever their sizes, the cache, and their ways through the stages, even backwards and through
    /// the entry.
    #[test]
    fn every_request_ends_with_every_budget(
        ways in prop::collection::vec(prop::collection::vec((0usize..4, 0u8..3), 1..6), 1..60),
        cache in 1usize..100_000,
        every in any::<bool>(),
        step in 0u64..3_000_000,
    ) {
        let mut graph = Graph::new();
        graph.cache_bytes(cache);
        graph.ingress(if every { Ingress::BudgetEveryStage } else { Ingress::Budget });
        let stages = vec![
            graph.stage("entry").entry().object::<[u8; 512]>("head").shared(()),
            graph.stage("large").object::<Object>("body").shared(()),
            graph.stage("small").shared(()),
            graph.stage("tail").object::<[u8; 2048]>("tail").max_cohort(3).shared(()),
        ];
        let (processor, world) = (alone(graph), Bench::default());
        let (stages, ended, count) = (Rc::new(stages), Rc::new(Cell::new(0)), ways.len());
        processor.enter(|| {
            ways.into_iter().for_each(|way| pass_on(stages.clone(), way, ended.clone()));
        });
        let mut turns = 0;
        while processor.turn(&world).ran > 0 {
            world.now.set(world.now.get() + step);
            turns += 1;
            prop_assert!(turns < 5_000, "{} of {} ended", ended.get(), count);
        }
        prop_assert_eq!((ended.get(), processor.live()), (count, 0));
    }
}
