//! Memory budget: a soft bound on the requests that begin keeps the cache for requests in progress.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::common::{Bench, single_processor};
use phalanx_core::{Graph, Ingress, Processor, SharedStage, oneshot, yield_now};
use proptest::prelude::*;

type Object = [u8; 8192];
/// Half of the cache fits seven requests, because their slots also take some bytes.
const CACHE: usize = 128 << 10;
const REQUESTS: usize = 100;

/// The current and the maximum number of requests in progress.
#[derive(Default)]
struct InProgress {
    now: Cell<usize>,
    peak: Cell<usize>,
    total: Cell<usize>,
}

impl InProgress {
    fn record_start(&self) {
        self.total.set(self.total.get() + 1);
        self.now.set(self.now.get() + 1);
        self.peak.set(self.peak.get().max(self.now.get()));
    }

    fn record_end(&self) {
        self.now.set(self.now.get() - 1);
    }
}

fn program(ingress: Ingress) -> (Processor, SharedStage<()>, SharedStage<()>) {
    let mut graph = Graph::new();
    graph.cache_bytes(CACHE);
    graph.ingress(ingress);
    let first = graph.stage("first").entry().object::<Object>("object").shared(());
    let second = graph.stage("second").object::<Object>("object").shared(());
    (single_processor(graph), first, second)
}

/// A hundred requests at once, each of which continues for a few turns without waiting.
fn run_requests(ingress: Ingress) -> (usize, u64) {
    let (processor, first, second) = program(ingress);
    let (world, requests) = (Bench::default(), Rc::new(InProgress::default()));
    processor.enter(|| {
        for _ in 0..REQUESTS {
            let requests = requests.clone();
            let request = move |_| async move {
                requests.record_start();
                let work = move |_| async move {
                    for _ in 0..3 {
                        yield_now().await;
                    }
                    requests.record_end();
                };
                second.dispatch(work).unwrap();
            };
            first.dispatch(request).unwrap();
        }
    });
    while processor.turn(&world).ran > 0 {}
    assert_eq!((requests.total.get(), requests.now.get(), processor.live()), (REQUESTS, 0, 0));
    (requests.peak.get(), processor.control().processor(0).stages[0].throttled_turns)
}

#[test]
fn no_more_are_begun_than_fit_while_others_could_run() {
    let (peak, throttled) = run_requests(Ingress::Budget);
    assert!((4..=7).contains(&peak), "{peak} at a time");
    assert!(throttled > 10, "{throttled}");
    // With the cohort bound alone, more requests begin.
    let (unlimited_peak, throttled) = run_requests(Ingress::Throttle);
    assert!(unlimited_peak > 2 * peak && throttled == 0, "{unlimited_peak}, {throttled}");
}

#[test]
fn waiting_requests_do_not_count() {
    let (processor, first, _) = program(Ingress::Budget);
    let (world, requests) = (Bench::default(), Rc::new(InProgress::default()));
    let waiting: Rc<RefCell<Vec<oneshot::LocalSender<()>>>> = Rc::default();
    processor.enter(|| {
        for _ in 0..REQUESTS {
            let (requests, waiting) = (requests.clone(), waiting.clone());
            let request = move |_| async move {
                requests.record_start();
                let (sender, receiver) = oneshot::local();
                waiting.borrow_mut().push(sender);
                receiver.await;
                requests.record_end();
            };
            first.dispatch(request).unwrap();
        }
    });
    let mut turns = 0;
    while processor.turn(&world).ran > 0 {
        turns += 1;
    }
    // Each turn begins as many requests as fit, not just one, because the earlier requests wait.
    assert!(turns < REQUESTS / 2, "{turns} turns");
    // All requests wait at the same time, although no more than seven fit.
    assert_eq!((requests.total.get(), requests.now.get()), (REQUESTS, REQUESTS));
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
    let (processor, world) = (single_processor(graph), Bench::default());
    let (left, total) = (Rc::new(Cell::new(5)), Rc::new(Cell::new(false)));
    processor.enter(|| {
        let count = left.clone();
        let work = move |_| async move {
            while count.get() > 0 {
                count.set(count.get() - 1);
                yield_now().await;
            }
        };
        busy.dispatch(work).unwrap();
        let total = total.clone();
        entry.dispatch(move |_| async move { total.set(true) }).unwrap();
    });
    while left.get() > 0 {
        assert!(!total.get(), "while something else runs");
        processor.turn(&world);
    }
    while processor.turn(&world).ran > 0 {}
    assert!(total.get());
}

#[test]
fn one_that_never_fits_is_begun_after_a_while_also_where_others_never_rest() {
    let mut graph = Graph::new();
    graph.cache_bytes(1);
    graph.ingress(Ingress::Budget);
    let entry = graph.stage("entry").entry().shared(());
    let busy = graph.shared("busy", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    let total = Rc::new(Cell::new(false));
    processor.enter(|| {
        let until = total.clone();
        let work = move |_| async move {
            while !until.get() {
                yield_now().await;
            }
        };
        busy.dispatch(work).unwrap();
        let total = total.clone();
        entry.dispatch(move |_| async move { total.set(true) }).unwrap();
    });
    for _ in 0..9 {
        world.now.set(world.now.get() + 1_000_000);
        processor.turn(&world);
        assert!(!total.get(), "at {} ns", world.now.get());
    }
    world.now.set(world.now.get() + 2_000_000);
    processor.turn(&world);
    assert!(total.get());
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
    let (processor, world) = (single_processor(graph), Bench::default());
    let requests = Rc::new(InProgress::default());
    let waiting: Rc<RefCell<Vec<oneshot::LocalSender<()>>>> = Rc::default();
    processor.enter(|| {
        for _ in 0..REQUESTS {
            let (requests, waiting) = (requests.clone(), waiting.clone());
            let work = move |_| async move {
                let (sender, receiver) = oneshot::local();
                waiting.borrow_mut().push(sender);
                receiver.await;
                requests.record_start();
                third.dispatch(move |_| async move { requests.record_end() }).unwrap();
            };
            first.dispatch(move |_| async move { second.dispatch(work).unwrap() }).unwrap();
        }
    });
    while processor.turn(&world).ran > 0 {}
    assert_eq!((requests.total.get(), waiting.borrow().len()), (0, REQUESTS));
    processor.enter(|| waiting.take().into_iter().for_each(|sender| sender.send(())));
    while processor.turn(&world).ran > 0 {}
    assert_eq!((requests.total.get(), requests.now.get(), processor.live()), (REQUESTS, 0, 0));
    requests.peak.get()
}

#[test]
fn requests_that_return_at_once_are_bounded_at_every_stage() {
    assert_eq!(passed_on_together(Ingress::Budget), REQUESTS);
    let peak = passed_on_together(Ingress::BudgetEveryStage);
    assert!((4..=7).contains(&peak), "{peak} at a time");
}

/// Passes a request to the stages of `steps` in turn.
fn visit_stages(
    stages: Rc<Vec<SharedStage<()>>>,
    mut steps: Vec<(usize, u8)>,
    completed: Rc<Cell<usize>>,
) {
    let Some((stage, yields)) = steps.pop() else { return completed.set(completed.get() + 1) };
    let handle = stages[stage];
    let work = move |_| async move {
        for _ in 0..yields {
            yield_now().await;
        }
        visit_stages(stages, steps, completed);
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
        let (processor, world) = (single_processor(graph), Bench::default());
        let (stages, completed, count) = (Rc::new(stages), Rc::new(Cell::new(0)), ways.len());
        processor.enter(|| {
            ways.into_iter().for_each(|steps| visit_stages(stages.clone(), steps, completed.clone()));
        });
        let mut turns = 0;
        while processor.turn(&world).ran > 0 {
            world.now.set(world.now.get() + step);
            turns += 1;
            prop_assert!(turns < 5_000, "{} of {} ended", completed.get(), count);
        }
        prop_assert_eq!((completed.get(), processor.live()), (count, 0));
    }
}
