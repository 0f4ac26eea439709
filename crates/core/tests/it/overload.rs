//! Overload: deadlines and admission, in virtual time where it can be.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{Bench, Program, run, settle, single_processor};
use phalanx_core::{
    CallError, Cohort, Control, Graph, Ingress, PartitionedStage, Processor, Session, SharedStage,
    Shed, sleep,
};

const MS: u64 = 1_000_000;
const ADMIT: Ingress = Ingress::Admit { max_queue_delay: Ingress::DEFAULT_MAX_QUEUE_DELAY };

/// A world that operations can reach, to let time pass.
fn world() -> &'static Bench {
    Box::leak(Box::default())
}

#[test]
fn an_operation_past_its_deadline_is_not_started() {
    let mut graph = Graph::new();
    let (a, b) = (graph.shared("a", ()), graph.shared("b", ()));
    let (processor, world, ran) = (single_processor(graph), world(), Rc::new(Cell::new(0)));
    let count = ran.clone();
    settle(&processor, world, || {
        let session = Session::new();
        session.set_deadline(Duration::from_millis(10));
        session
            .scope(|| {
                a.dispatch(move |_| async move {
                    let run = || {
                        let count = count.clone();
                        b.call(move |_| async move { count.set(count.get() + 1) })
                    };
                    assert_eq!(run().await, Ok(()));
                    let late = run();
                    world.now.set(world.now.get() + 11 * MS);
                    assert_eq!(
                        late.await,
                        Err(CallError::DeadlinePassed),
                        "queued in time, but not run"
                    );
                    assert_eq!(
                        run().await,
                        Err(CallError::DeadlinePassed),
                        "what has started goes on"
                    );
                    assert_eq!(Session::current().unwrap().time_left(), Some(Duration::ZERO));
                    let late = Ingress::admit();
                    assert_eq!(late.map(drop), Err(Shed::DeadlinePassed));
                    // A separate session has its own deadline, and a nested session cannot extend the outer one's.
                    let own = Session::new();
                    let (count, inner) =
                        (count.clone(), Session::with_deadline(Duration::from_secs(9)));
                    assert_eq!((own.time_left(), inner.time_left()), (None, Some(Duration::ZERO)));
                    own.scope(|| b.dispatch(move |_| async move { count.set(count.get() + 10) }))
                        .unwrap();
                })
            })
            .unwrap();
    });
    assert_eq!(ran.get(), 11);
    let profile = processor.control().profile();
    let stages = &profile.processors[0].stages;
    assert_eq!((stages[0].shed.deadline, stages[0].shed.admission), (1, 0));
    assert_eq!((stages[1].shed.deadline, stages[1].cancelled, stages[1].started.count), (2, 0, 2));
    assert_eq!(processor.live(), 0);
}

#[test]
fn deadlines_cross_to_other_processors() {
    let ran = Arc::new(AtomicU32::new(0));
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let work = graph.shared("work", ran.clone());
    let table = graph.partitioned("table", |_| ());
    let asks = move |work: SharedStage<Arc<AtomicU32>>, table: PartitionedStage<()>| async move {
        let ran = work.call_on(1, |ran| async move { ran.fetch_add(1, Ordering::Relaxed) });
        assert_eq!(ran.await, Ok(0), "there is time");
        Session::current().unwrap().set_deadline(Duration::ZERO);
        // The turn of the other processor may have begun before.
        sleep(Duration::from_millis(5)).await;
        let late = work.call_on(1, |ran| async move { ran.fetch_add(1, Ordering::Relaxed) });
        assert_eq!(late.await, Err(CallError::DeadlinePassed));
        for key in 0..8 {
            let late = table.call(key, |_| async move { unreachable!("it is late") });
            assert_eq!(late.await, Err(CallError::DeadlinePassed));
        }
    };
    let control = run(graph, 2, move |index, control| {
        if index == 0 {
            let session = Session::with_deadline(Duration::from_secs(1000));
            session
                .scope(|| {
                    main.dispatch(move |_| async move {
                        let _end = EndProgram(control);
                        asks(work, table).await;
                    })
                })
                .unwrap();
        }
    });
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    let late = |stage: usize| -> u64 {
        control.profile().processors.iter().map(|p| p.stages[stage].shed.deadline).sum()
    };
    assert_eq!((late(1), late(2)), (1, 8));
}

#[test]
fn the_bound_of_operations_sheds_too() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    graph.max_operations(2);
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || {
        let accepted = (0..5).filter(|_| a.dispatch(|_| async {}).is_ok()).count();
        assert_eq!(accepted, 2);
    });
    let shed = processor.control().profile().processors[0].stages[0].shed;
    assert_eq!((shed.full, shed.deadline, shed.admission), (3, 0, 0));
}

/// An item that comes too late for a cohort operation is not in the cohort; the others are.
#[test]
fn a_cohort_operation_gets_no_expired_items() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let gather = graph.stage("gather").cohort(
        |_| (),
        |(), cohort: &mut Cohort<u32, usize>| {
            let size = cohort.len();
            cohort.iter_mut().for_each(|entry| entry.reply(size));
        },
    );
    let (processor, world) = (single_processor(graph), world());
    settle(&processor, world, || {
        let session = Session::new();
        session.set_deadline(Duration::from_millis(10));
        gather.dispatch(1).unwrap();
        session
            .scope(|| {
                a.dispatch(move |_| async move {
                    let (late, own) = (gather.call(2), Session::new());
                    own.scope(|| gather.dispatch(3)).unwrap();
                    own.set_deadline(Duration::from_millis(20));
                    world.now.set(world.now.get() + 11 * MS);
                    assert_eq!(late.await, Err(CallError::DeadlinePassed));
                })
            })
            .unwrap();
    });
    let stage = &processor.control().profile().processors[0].stages[1];
    assert_eq!((stage.shed.deadline, stage.cancelled), (1, 0));
    assert_eq!((stage.started.count, stage.completed.count, stage.suspended_now()), (2, 2, 0));
    assert_eq!(processor.live(), 0);
}

/// Ends the program even if a test fails.
struct EndProgram(Control);

impl Drop for EndProgram {
    fn drop(&mut self) {
        self.0.drain();
    }
}

/// The duration of a request.
const SERVICE: u64 = MS / 10;

/// The results of a load.
#[derive(Default)]
struct Outcome {
    rejected: Cell<u32>,
    latency: RefCell<Vec<u64>>,
}

/// Generates `load` times the requests that one processor can serve, for the given number of milliseconds.
fn drive(
    world: &'static Bench,
    entry: SharedStage<()>,
    work: SharedStage<()>,
    turn: &dyn Fn() -> usize,
    load: f64,
    ms: u64,
) -> Rc<Outcome> {
    let outcome = Rc::new(Outcome::default());
    let (start, mut sent) = (world.now.get(), 0);
    while world.now.get() < start + ms * MS {
        let due = ((world.now.get() - start) as f64 / SERVICE as f64 * load) as u64;
        for _ in sent..due {
            let (outcome, arrival) = (outcome.clone(), world.now.get());
            world.completions.borrow_mut().push(Box::new(move || {
                entry
                    .dispatch(move |_| async move {
                        let Ok(permit) = Ingress::admit() else {
                            world.now.set(world.now.get() + SERVICE / 50);
                            return outcome.rejected.set(outcome.rejected.get() + 1);
                        };
                        let done = work.call(move |_| async move {
                            world.now.set(world.now.get() + SERVICE);
                            drop(permit);
                        });
                        done.await.unwrap();
                        outcome.latency.borrow_mut().push(world.now.get() - arrival);
                    })
                    .unwrap();
            }));
        }
        sent = due;
        if turn() == 0 {
            world.now.set(world.now.get() + SERVICE / 10);
        }
    }
    outcome
}

#[test]
fn an_overloaded_processor_serves_admitted_requests() {
    serves_admitted_requests(|processor, world| processor.turn(world).ran);
}

/// Admission also works when a simulation drives the processor by steps.
#[test]
fn so_does_one_that_is_driven_by_steps() {
    serves_admitted_requests(|processor, world| {
        let steps = processor.stepping();
        steps.receive(world);
        steps.ready().map(|stage| steps.run(stage, usize::MAX, |left| left - 1, world)).sum()
    });
}

fn serves_admitted_requests(turn: impl Fn(&Processor, &Bench) -> usize) {
    let mut graph = Graph::new();
    graph.ingress(ADMIT);
    let (entry, work) = (graph.shared("entry", ()), graph.stage("work").max_cohort(16).shared(()));
    let (processor, world) = (single_processor(graph), world());
    let limit = || processor.enter(Ingress::limit);
    let turn = || turn(&processor, world);
    let during = |load, ms| drive(world, entry, work, &turn, load, ms);
    assert_eq!(during(0.9, 1000).rejected.get(), 0);
    assert_eq!(limit(), None, "no limit without congestion");
    during(2.0, 150);
    assert!(limit().is_some());
    let overloaded = during(2.0, 1000);
    let mut latency = overloaded.latency.take();
    latency.sort_unstable();
    let p99 = latency[latency.len() * 99 / 100];
    assert!(p99 < 50 * MS, "{} ms", p99 / MS);
    assert!(latency.len() > 9_000, "{} of 10000", latency.len());
    let shed = processor.control().profile().processors[0].stages[0].shed.admission;
    assert!(overloaded.rejected.get() > 5_000 && shed >= u64::from(overloaded.rejected.get()));
    during(0.5, 500);
    assert_eq!(during(0.9, 500).rejected.get(), 0);
    assert_eq!(limit(), None, "the limit goes with the congestion");
    while turn() > 0 {}
    assert_eq!(processor.live(), 0);
}

/// Queue delay in the driver counts like queue delay in a stage.
#[test]
fn external_queue_delay_counts() {
    let mut graph = Graph::new();
    graph.ingress(ADMIT);
    let (processor, world) = (single_processor(graph), world());
    let limit_after = |intervals, waited| {
        world.waited.set(waited);
        for _ in 0..intervals {
            for _ in 0..3 {
                world.now.set(world.now.get() + 4 * MS);
                processor.turn(world);
            }
            let _ = processor.enter(|| Ingress::admit().map(drop));
        }
        processor.enter(Ingress::limit)
    };
    assert_eq!(limit_after(10, 14 * MS), None);
    assert!(limit_after(5, 16 * MS).is_some());
    assert_eq!(limit_after(20, 0), None);
}

/// A session has one deadline on all processors, and an operation that returns does not bring an earlier one back.
#[test]
fn a_later_deadline_reaches_other_processors() {
    let seconds = |session: &Session| session.time_left().map(|left| left.as_secs());
    for later in [Duration::from_secs(10), Duration::MAX] {
        let mut graph = Graph::new();
        let work = graph.shared("work", ());
        let program = Program::new(graph, 2);
        let session = program.processors[0].enter(Session::new);
        let there = std::sync::Arc::new(std::sync::Mutex::new(None));
        program.processors[0].enter(|| {
            session.set_deadline(Duration::from_millis(100));
            let there = there.clone();
            let asks = move |_| async move {
                sleep(Duration::from_millis(5)).await;
                let back = work.call_on(0, |_| async {}).await;
                let left = Session::current().and_then(|session| session.time_left());
                *there.lock().unwrap() = Some((back, left.map(|left| left.as_secs())));
            };
            session.scope(|| work.call_on(1, asks)).detach().unwrap();
        });
        (0..4).for_each(|at| _ = program.turn(at));
        program.processors[0].enter(|| session.set_deadline(later));
        program.settle(20);
        let left = (later < Duration::MAX).then_some(9);
        assert_eq!(*there.lock().unwrap(), Some((Ok(()), left)));
        assert_eq!(program.processors[0].enter(|| seconds(&session)), left);
    }
}
