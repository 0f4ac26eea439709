//! The order in which a stage's operations start.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Bench, Program, settle, single_processor};
use phalanx_core::{
    Cohort, CohortStage, ExclusiveStage, Graph, PartitionedStage, Session, SharedStage,
    StageOptions, oneshot, yield_now,
};
use proptest::prelude::*;

/// The order in which five operations run that are dispatched to a stage with these options.
fn run_five(options: impl FnOnce(StageOptions<'_>) -> StageOptions<'_>) -> Vec<usize> {
    let mut graph = Graph::new();
    let stage = options(graph.stage("stage")).shared(());
    let (processor, world) = (single_processor(graph), Bench::default());
    let ran = Rc::new(RefCell::new(Vec::new()));
    settle(&processor, &world, || {
        for n in 0..5 {
            let ran = ran.clone();
            stage.dispatch(move |_| async move { ran.borrow_mut().push(n) }).unwrap();
        }
    });
    ran.take()
}

#[test]
fn operations_start_in_the_order_of_their_invocation() {
    assert_eq!(run_five(|stage| stage), [0, 1, 2, 3, 4]);
    assert_eq!(run_five(|stage| stage.max_cohort(2)), [0, 1, 2, 3, 4]);
    assert_eq!(run_five(|stage| stage.direct()), [0, 1, 2, 3, 4]);
}

#[test]
fn a_lifo_stage_takes_the_newest_first() {
    assert_eq!(run_five(|stage| stage.lifo()), [4, 3, 2, 1, 0]);
    // If a cohort leaves operations behind, the next cohort takes the oldest of them.
    assert_eq!(run_five(|stage| stage.lifo().max_cohort(2)), [4, 3, 0, 1, 2]);
}

/// A call sees the effects of earlier calls, whether these are awaited or not.
#[test]
fn a_call_sees_the_effects_of_earlier_invocations() {
    for direct in [false, true] {
        let mut graph = Graph::new();
        let front = graph.shared("front", ());
        let list = graph.stage("list");
        let list = if direct { list.direct() } else { list };
        let list = list.partitions(1).partitioned(|_| Vec::new());
        let (processor, world) = (single_processor(graph), Bench::default());
        let lengths = Rc::new(RefCell::new(Vec::new()));
        let seen = lengths.clone();
        settle(&processor, &world, || {
            front
                .dispatch(move |_| async move {
                    let push =
                        || list.call(0, |list| async move { list.with(|list| list.push(1)) });
                    let length =
                        || list.call(0, |list| async move { list.with(|list| list.len()) });
                    drop(push());
                    let _later = push();
                    let by_call = length().await;
                    drop(push());
                    let by_run = list.run(0, |list| async move { list.with(|list| list.len()) });
                    let by_run = by_run.await;
                    seen.borrow_mut().extend([by_call, by_run]);
                })
                .unwrap();
        });
        assert_eq!(*lengths.borrow(), [Ok(2), Ok(3)], "direct: {direct}");
    }
}

/// In a stage with an empty queue, an awaited operation runs inline.
#[test]
fn a_run_is_part_of_its_caller_if_no_operation_waits() {
    let mut graph = Graph::new();
    let front = graph.shared("front", ());
    let back = graph.stage("back").direct().shared(());
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || {
        let run = move |_| async move { back.run(|_| async {}).await.unwrap() };
        (0..3).for_each(|_| front.dispatch(run).unwrap());
    });
    let profile = processor.control().profile();
    let view = &profile.processors[0].stages[1];
    assert_eq!((view.direct, view.completed.count, view.cohorts), (3, 3, 0));
}

/// A woken operation continues after operations invoked before its wake-up, and before later ones. An
/// operation that yields continues after all queued ones.
#[test]
fn woken_operations_queue_with_the_invoked() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    let ran = Rc::new(RefCell::new(Vec::new()));
    let note = |name| {
        let ran = ran.clone();
        move || ran.borrow_mut().push(name)
    };
    let (sender, receiver) = oneshot::local::<()>();
    let (woken, before, after_wake) = (note("woken"), note("before"), note("behind"));
    settle(&processor, &world, || {
        let waits = async move {
            receiver.await;
            woken();
        };
        stage.dispatch(move |_| waits).unwrap();
    });
    let (before_yield, after_yield) = (note("yields"), note("yielded"));
    settle(&processor, &world, || {
        let before_yield = async move {
            before_yield();
            yield_now().await;
            after_yield();
        };
        stage.dispatch(move |_| before_yield).unwrap();
        stage.dispatch(move |_| async move { before() }).unwrap();
        sender.send(());
        stage.dispatch(move |_| async move { after_wake() }).unwrap();
    });
    assert_eq!(*ran.borrow(), ["yields", "before", "woken", "behind", "yielded"]);
}

/// An operation of another processor that is rejected on arrival leaves the order of the local queue
/// unchanged.
#[test]
fn a_rejected_arrival_keeps_the_order_of_the_queue() {
    let mut graph = Graph::new();
    let front = graph.shared("front", ());
    let stage = graph.stage("stage").max_cohort(4).shared(());
    let program = Program::new(graph, 2);
    program.processors[1].enter(|| {
        let session = Session::with_deadline(Duration::from_millis(1));
        let late = move |_| async move {
            for _ in 0..8 {
                drop(stage.call_on(0, |_| async { unreachable!("it is late") }));
            }
        };
        session.scope(|| front.dispatch(late)).unwrap();
        program.turn(1);
    });
    program.world.now.set(2_000_000);
    let ran = Rc::new(RefCell::new(Vec::new()));
    program.processors[0].enter(|| {
        for n in 0..20 {
            let ran = ran.clone();
            stage.dispatch(move |_| async move { ran.borrow_mut().push(n) }).unwrap();
        }
    });
    program.settle(4);
    assert!(ran.take().into_iter().eq(0..20));
    let profile = program.processors[0].control().profile();
    assert_eq!(profile.processors[0].stages[1].shed.deadline, 8);
}

const PROCESSORS: usize = 3;
const PARTITIONS: usize = 4;

/// The next invocation of one caller.
#[derive(Clone, Copy, Debug)]
enum Invoke {
    Shared,
    SharedOn(usize),
    InlineState,
    Partition(u64),
    Exclusive,
    Cohort(usize),
    Yield,
}

fn invoke() -> impl Strategy<Value = Invoke> {
    prop_oneof![
        Just(Invoke::Shared),
        (0..PROCESSORS).prop_map(Invoke::SharedOn),
        Just(Invoke::InlineState),
        (0..PARTITIONS as u64).prop_map(Invoke::Partition),
        Just(Invoke::Exclusive),
        (0..PROCESSORS).prop_map(Invoke::Cohort),
        Just(Invoke::Yield),
    ]
}

/// For each caller, stage and place: the numbers of the invocations in the order of their start.
type Started = Arc<Mutex<HashMap<(usize, &'static str, usize), Vec<usize>>>>;

#[derive(Clone, Copy)]
struct Stages {
    callers: SharedStage<()>,
    shared: SharedStage<()>,
    direct: SharedStage<()>,
    partitioned: PartitionedStage<()>,
    exclusive: ExclusiveStage<()>,
    cohort: CohortStage<(usize, usize, usize), ()>,
}

async fn caller(stages: Stages, number: usize, plan: Vec<Invoke>, started: Started) {
    for (n, invoke) in plan.into_iter().enumerate() {
        let started = started.clone();
        let note = move |stage, place| {
            let mut started = started.lock().unwrap();
            started.entry((number, stage, place)).or_default().push(n);
        };
        match invoke {
            Invoke::Shared => {
                stages
                    .shared
                    .dispatch(move |_| async move { note("shared", number % PROCESSORS) })
                    .unwrap();
            }
            Invoke::SharedOn(at) => {
                drop(stages.shared.call_on(at, move |_| async move { note("shared", at) }));
            }
            Invoke::InlineState if n % 2 == 0 => {
                stages.direct.call(move |_| async move { note("direct", 0) }).await.unwrap();
            }
            Invoke::InlineState if n % 3 == 0 => {
                stages.direct.run(move |_| async move { note("direct", 0) }).await.unwrap();
            }
            Invoke::InlineState => {
                stages.direct.dispatch(move |_| async move { note("direct", 0) }).unwrap();
            }
            Invoke::Partition(key) => {
                let note = move |_| async move { note("partitioned", key as usize) };
                drop(stages.partitioned.call(key, note));
            }
            Invoke::Exclusive => {
                stages.exclusive.dispatch(move |_| async move { note("exclusive", 0) }).unwrap();
            }
            Invoke::Cohort(at) => drop(stages.cohort.call_on(at, (number, at, n))),
            Invoke::Yield => yield_now().await,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The operations of each caller start in the order of their invocation, for each stage and processor or partition,
    /// however processors take turns and however small cohorts are.
    #[test]
    fn each_caller_is_served_in_order(
        plans in proptest::collection::vec(proptest::collection::vec(invoke(), 0..40), 1..8),
        turns in proptest::collection::vec(0..PROCESSORS, 0..60),
        max_cohort in prop_oneof![Just(1usize), Just(3), Just(64)],
    ) {
        let started = Started::default();
        let log = started.clone();
        let mut graph = Graph::new();
        let stages = Stages {
            callers: graph.stage("callers").max_cohort(max_cohort).shared(()),
            shared: graph.stage("shared").max_cohort(max_cohort).shared(()),
            direct: graph.stage("direct").max_cohort(max_cohort).direct().shared(()),
            partitioned: graph.stage("partitioned").max_cohort(max_cohort).partitions(PARTITIONS).partitioned(|_| ()),
            exclusive: graph.stage("exclusive").max_cohort(max_cohort).exclusive(()),
            cohort: graph.stage("cohort").max_cohort(max_cohort).cohort(
                |_| (),
                move |(), cohort: &mut Cohort<(usize, usize, usize), ()>| {
                    for ((number, at, n), reply) in cohort.drain() {
                        log.lock().unwrap().entry((number, "cohort", at)).or_default().push(n);
                        reply.send(());
                    }
                },
            ),
        };
        let program = Program::new(graph, PROCESSORS);
        let mut expected = 0;
        let completed = Rc::new(Cell::new(0));
        for (number, plan) in plans.iter().enumerate() {
            expected += plan.iter().filter(|invoke| !matches!(invoke, Invoke::Yield)).count();
            let (plan, started, completed) = (plan.clone(), started.clone(), completed.clone());
            program.processors[number % PROCESSORS].enter(|| {
                let run = async move {
                    caller(stages, number, plan, started).await;
                    completed.set(completed.get() + 1);
                };
                stages.callers.dispatch(move |_| run).unwrap();
            });
        }
        turns.into_iter().for_each(|at| _ = program.turn(at));
        program.settle(4);
        prop_assert_eq!(completed.get(), plans.len());
        let started = started.lock().unwrap();
        prop_assert_eq!(started.values().map(Vec::len).sum::<usize>(), expected);
        for (of, numbers) in &*started {
            prop_assert!(numbers.is_sorted(), "{:?}: {:?}", of, numbers);
        }
    }
}
