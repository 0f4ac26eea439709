//! Random programs on several processors, turned by hand in random order, against a model: each invocation
//! runs once or its caller gets an error, nothing leaks, and the counters add up.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use crate::common::Bench;
use phalanx_core::{
    BalancedStage, Call, CallError, Cohort, CohortStage, ExclusiveStage, Graph, PartitionedStage,
    Session, SharedStage, StageOptions, join, sleep, timeout, yield_now,
};
use proptest::prelude::*;

const PROCESSORS: usize = 3;

/// The steps of an operation.
#[derive(Clone, Debug)]
enum Step {
    Dispatch(Place, Plan),
    Call(Place, Plan),
    /// A child is called, and the call is dropped after this many yields.
    Forget(Place, Plan, u8),
    Join(Vec<(Place, Plan)>),
    /// Waits for a child, but not for long.
    CallWithTimeout(Place, Plan),
    Yield,
    Sleep(u8),
    /// Runs a child in its own session, which ends after this many yields.
    Session(Plan, u8),
    EndOwnSession,
    Panic,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Here,
    CancelFlag(usize),
    Keyed(u64),
    Exclusive,
    /// An item of a cohort operation, instead of the plan.
    Item(usize),
    Balanced,
}

type Plan = Vec<Step>;

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        3 => Just(Place::Here),
        2 => (0..PROCESSORS).prop_map(Place::CancelFlag),
        2 => any::<u64>().prop_map(Place::Keyed),
        1 => Just(Place::Exclusive),
        2 => (0..PROCESSORS).prop_map(Place::Item),
        2 => Just(Place::Balanced),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let leaf = prop_oneof![
        4 => Just(Step::Yield),
        2 => (0u8..5).prop_map(Step::Sleep),
        1 => Just(Step::EndOwnSession),
        1 => Just(Step::Panic),
    ];
    let plan = proptest::collection::vec(leaf, 0..3);
    plan.prop_recursive(5, 120, 5, |inner| {
        let step = prop_oneof![
            3 => (place(), inner.clone()).prop_map(|(place, plan)| Step::Dispatch(place, plan)),
            4 => (place(), inner.clone()).prop_map(|(place, plan)| Step::Call(place, plan)),
            2 => (place(), inner.clone(), 0u8..4)
                .prop_map(|(place, plan, yields)| Step::Forget(place, plan, yields)),
            3 => proptest::collection::vec((place(), inner.clone()), 0..4).prop_map(Step::Join),
            1 => (place(), inner.clone()).prop_map(|(place, plan)| Step::CallWithTimeout(place, plan)),
            2 => (inner, 0u8..6).prop_map(|(plan, yields)| Step::Session(plan, yields)),
            1 => Just(Step::Yield),
            1 => Just(Step::EndOwnSession),
        ];
        proptest::collection::vec(step, 1..6)
    })
}

/// The outcome of one invocation, as recorded by the operation itself.
#[derive(Default)]
struct Record {
    started: AtomicU32,
    completed: AtomicU32,
    panics: AtomicU32,
    rejected: AtomicU32,
    /// How often its captures were dropped.
    dropped: AtomicU32,
}

/// Owned by the invocation and then by its future.
struct SlotState(Arc<Record>);

impl Drop for SlotState {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Relaxed);
    }
}

#[derive(Clone)]
struct Env {
    here: SharedStage<()>,
    keyed: PartitionedStage<u32>,
    exclusive: ExclusiveStage<u32>,
    items: CohortStage<Item, u32>,
    balanced: BalancedStage<()>,
    records: Arc<std::sync::Mutex<Vec<Arc<Record>>>>,
}

/// The plan of an item, and the record of its outcome.
struct Item(usize, SlotState);

/// Replies to each item, until one of them makes it panic: then the others fail with it.
fn handle(cohort: &mut Cohort<Item, u32>) {
    for entry in cohort.iter() {
        entry.item.1.0.started.fetch_add(1, Relaxed);
    }
    for at in 0..cohort.len() {
        let entry = &mut cohort[at];
        if entry.item.0 % 4 == 3 {
            for entry in &cohort[at..] {
                entry.item.1.0.panics.fetch_add(1, Relaxed);
            }
            panic!("as planned");
        }
        entry.reply(entry.item.1.0.completed.fetch_add(1, Relaxed) + 7);
    }
}

type Running = Pin<Box<dyn Future<Output = u32>>>;

impl Env {
    /// Invokes `plan` on stage `place`.
    fn call(&self, place: Place, plan: &Plan) -> (Arc<Record>, Call<u32>) {
        let (record, life) = self.record();
        let (env, plan) = (self.clone(), plan.clone());
        let call = match place {
            Place::Here => self.here.call(move |_| env.start(plan, life)),
            Place::CancelFlag(at) => self.here.call_on(at, move |_| env.start(plan, life)),
            Place::Keyed(key) => self.keyed.call(key, move |part| {
                part.with(|count| *count += 1);
                env.start(plan, life)
            }),
            Place::Balanced => self.balanced.call(move |_| env.start(plan, life)),
            Place::Exclusive => self.exclusive.call(move |state| {
                state.with(|count| *count += 1);
                env.start(plan, life)
            }),
            Place::Item(at) => self.items.call_on(at, Item(plan.len(), life)),
        };
        // Checks that nothing that was just taken is over. This also holds where a child that runs inside its caller
        // has ended their session, and the caller continues to its next wait.
        if call.is_finished() {
            record.rejected.fetch_add(1, Relaxed);
        }
        (record, call)
    }

    fn record(&self) -> (Arc<Record>, SlotState) {
        let record = Arc::new(Record::default());
        self.records.lock().unwrap().push(record.clone());
        (record.clone(), SlotState(record))
    }

    fn start(self, plan: Plan, life: SlotState) -> Running {
        life.0.started.fetch_add(1, Relaxed);
        Box::pin(async move {
            for step in plan {
                self.step(step, &life).await;
            }
            life.0.completed.fetch_add(1, Relaxed) + 7
        })
    }

    async fn step(&self, step: Step, life: &SlotState) {
        match step {
            Step::Dispatch(place, plan) => {
                let (record, call) = self.call(place, &plan);
                detached(&record, call);
            }
            Step::Call(place, plan) => {
                let (record, call) = self.call(place, &plan);
                check(&record, call.await);
            }
            Step::Forget(place, plan, yields) => {
                let (record, call) = self.call(place, &plan);
                for _ in 0..yields {
                    yield_now().await;
                }
                detached(&record, call);
            }
            Step::Join(children) => {
                let children = children.iter().map(|(place, plan)| self.call(*place, plan));
                let (records, calls): (Vec<_>, Vec<_>) = children.unzip();
                let results = join(calls).await;
                records.iter().zip(results).for_each(|(record, result)| check(record, result));
            }
            Step::CallWithTimeout(place, plan) => {
                let (one, two) = (self.call(place, &plan), self.call(place, &Vec::new()));
                let both = join((one.1, two.1));
                if let Ok(results) = timeout(Duration::from_millis(2), both).await {
                    check(&one.0, results.0);
                    check(&two.0, results.1);
                }
            }
            Step::Yield => yield_now().await,
            Step::Sleep(ms) => sleep(Duration::from_millis(ms.into())).await,
            Step::Session(plan, yields) => {
                let session = Session::new();
                let ((record, life), env) = (self.record(), self.clone());
                let root = session.scope(|| {
                    self.here.dispatch(move |_| {
                        let running = env.start(plan, life);
                        async move {
                            running.await;
                        }
                    })
                });
                if let Err(error) = root {
                    assert_eq!(error, CallError::Cancelled);
                    record.rejected.fetch_add(1, Relaxed);
                }
                for _ in 0..yields {
                    yield_now().await;
                }
                session.end().await;
                assert_eq!(session.operations(), 0);
            }
            Step::EndOwnSession => {
                if let Some(session) = Session::current() {
                    let end = session.end();
                    let items = [Place::Item(0), Place::Item(1)];
                    for place in
                        [Place::Here, Place::CancelFlag(1), Place::Exclusive, Place::Balanced]
                            .into_iter()
                            .chain(items)
                    {
                        let (record, call) = self.call(place, &Vec::new());
                        detached(&record, call);
                        assert_eq!(record.rejected.load(Relaxed), 1, "taken into an ended session");
                    }
                    end.await;
                    unreachable!("an operation of an ended session went on");
                }
            }
            Step::Panic => {
                life.0.panics.fetch_add(1, Relaxed);
                panic!("as planned");
            }
        }
    }
}

fn detached(record: &Record, call: Call<u32>) {
    if let Err(error) = call.detach() {
        let (rejected, started) = (record.rejected.load(Relaxed), record.started.load(Relaxed));
        assert_eq!((error, rejected, started), (CallError::Cancelled, 1, 0));
    }
}

/// The caller's result matches the recorded outcome.
fn check(record: &Record, result: Result<u32, CallError>) {
    let (completed, panics) = (record.completed.load(Relaxed), record.panics.load(Relaxed));
    match result {
        Ok(value) => assert_eq!((value, completed, panics), (7, 1, 0)),
        Err(CallError::Panicked { message, .. }) => {
            assert_eq!((&*message, completed, panics), ("as planned", 0, 1));
        }
        Err(CallError::Cancelled) => assert_eq!((completed, panics), (0, 0)),
        Err(error) => panic!("{error}"),
    }
}

/// Some stages have a threshold, some hold.
fn with_policy(options: StageOptions<'_>, selector: u8) -> StageOptions<'_> {
    match selector % 8 {
        0 => options.threshold(2, None),
        1 => options.threshold(None, Duration::from_micros(1)),
        2 | 3 => options.hold(3, Duration::from_millis(2)),
        4 => options.hold(2, Duration::from_secs(60)).threshold(4, None),
        _ => options,
    }
}

/// Runs a plan to its end, turning the processors in the order that `order` chooses.
fn run(plan: &Plan, order: &[u8]) {
    let mut graph = Graph::new();
    let env = Env {
        here: with_policy(graph.stage("here").max_cohort(3), order[0]).shared(()),
        keyed: with_policy(graph.stage("keyed"), order[1]).partitioned(|_| 0),
        exclusive: with_policy(graph.stage("exclusive"), order[2]).exclusive(0),
        items: with_policy(graph.stage("items"), order[3])
            .cohort(|_| (), |(), cohort| handle(cohort)),
        balanced: graph.stage("balanced").max_cohort(2).balanced(()),
        records: Arc::default(),
    };
    let processors: Vec<_> =
        graph.build(PROCESSORS).into_iter().map(|builder| builder.build(Box::new(|| ()))).collect();
    let (world, failed) = (Bench::default(), Rc::new(RefCell::new(None)));
    processors[0].enter(|| {
        let (inner, plan, failed) = (env.clone(), plan.clone(), failed.clone());
        let root = env.here.dispatch(move |_| async move {
            let (record, call) = inner.call(Place::Here, &plan);
            check(&record, call.await);
            *failed.borrow_mut() = Some(false);
        });
        root.unwrap();
    });
    let direct = order[4].is_multiple_of(2);
    let mut order = order.iter().cycle();
    let mut idle_turns = 0;
    for round in 0.. {
        assert!(
            round < 100_000,
            "stuck: {:?}",
            processors.iter().map(|p| p.live()).collect::<Vec<_>>()
        );
        let selector = usize::from(*order.next().unwrap());
        let processor = &processors[selector % PROCESSORS];
        // In half of the runs, calls run inside their callers, at varying stages.
        if direct {
            processor.stepping().choose_direct(selector as u64 >> 2);
        }
        let turn = processor.turn(&world);
        idle_turns = if turn.ran > 0 || turn.received { 0 } else { idle_turns + 1 };
        if idle_turns > 3 * 64 {
            if processors.iter().all(|processor| processor.live() == 0) {
                break;
            }
            world.now.set(world.now.get() + 1_000_000);
        }
    }
    assert_eq!(*failed.borrow(), Some(false), "a check failed in the root");
    let control = processors[0].control();
    drop(processors);
    count(&env, &control.profile(), direct);
}

/// Compares the model's sums with the counters.
fn count(env: &Env, profile: &phalanx_core::Profile, direct: bool) {
    let records = env.records.lock().unwrap();
    let sum = |of: fn(&Record) -> &AtomicU32| -> u64 {
        records.iter().map(|record| u64::from(of(record).load(Relaxed))).sum()
    };
    for record in records.iter() {
        assert!(record.started.load(Relaxed) <= 1, "run twice");
        assert!(record.completed.load(Relaxed) + record.panics.load(Relaxed) <= 1);
        assert_eq!(record.dropped.load(Relaxed), 1, "captures are dropped once");
    }
    let stages: Vec<_> = profile.processors.iter().flat_map(|p| &p.stages).collect();
    let all = |of: fn(&phalanx_core::StageView) -> u64| stages.iter().map(|s| of(s)).sum::<u64>();
    // The root, which is not a plan, is one more.
    let started = sum(|record| &record.started) + 1;
    assert_eq!(all(|s| s.started.count), started);
    assert_eq!(all(|s| s.completed.count), sum(|record| &record.completed) + 1);
    assert_eq!(all(|s| s.panicked), sum(|record| &record.panics));
    assert_eq!(all(|s| s.rejected), sum(|record| &record.rejected));
    let accepted = records.len() as u64 + 1 - sum(|record| &record.rejected);
    let finished = all(|s| s.completed.count) + all(|s| s.panicked) + all(|s| s.cancelled);
    assert_eq!(finished, accepted, "each invocation that was taken is over in one way");
    for stage in stages {
        let run = stage.started.count + stage.resumed.count;
        // A panic in the invocation itself would count as started, too.
        assert_eq!(run, stage.completed.count + stage.suspended + stage.panicked);
        assert!(stage.resumed.count <= stage.suspended);
        // An operation that starts inline and suspends belongs to no cohort until it is resumed.
        let of_cohorts = if direct { stage.resumed.count } else { run };
        assert!(of_cohorts <= stage.cohorts * stage.cohort_max);
        assert!(direct || stage.direct == 0);
        assert_eq!(stage.cohort_sizes.iter().sum::<u64>(), stage.cohorts);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_invocation_is_accounted_for(
        plan in plan(),
        order in proptest::collection::vec(any::<u8>(), 64),
    ) {
        let outcome = std::panic::catch_unwind(|| run(&plan, &order));
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    }
}
