//! Exhaustive simulation: finds rare races, covers every schedule, and reports its bounds.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::sim::{self, Bounds, Coverage, World};
use phalanx::stage::Cohort;
use phalanx::sync::oneshot;
use phalanx::{CallError, Graph, Session, sleep, timeout, yield_now};

/// All outcomes of a program, and the coverage. `build` describes it, and gets the place for the outcome.
pub(super) fn outcomes<O: Ord + Clone + 'static>(
    bounds: Bounds,
    build: impl Fn(&mut World, Rc<RefCell<Vec<O>>>),
) -> (BTreeSet<Vec<O>>, Coverage) {
    let all = Rc::new(RefCell::new(BTreeSet::new()));
    let coverage = sim::explore_all(bounds, |world| {
        let (all, outcome) = (all.clone(), Rc::new(RefCell::new(Vec::new())));
        build(world, outcome.clone());
        world.after_shutdown(move || _ = all.borrow_mut().insert(outcome.borrow().clone()));
    });
    (all.take(), coverage)
}

/// The bounds with a change.
pub(super) fn bounds(change: impl FnOnce(&mut Bounds)) -> Bounds {
    let mut bounds = Bounds::default();
    change(&mut bounds);
    bounds
}

/// The message of a panic.
pub(super) fn failure(run: impl FnOnce()) -> Option<String> {
    let failed = catch_unwind(AssertUnwindSafe(run)).err()?;
    let text = failed.downcast_ref::<String>().cloned();
    Some(text.or_else(|| failed.downcast_ref::<&str>().map(ToString::to_string)).unwrap())
}

/// A cache that is filled by a reader and guarded by a version. The reader fills it with the value that it has loaded
/// if the version is still the same. With a version of a few bits that is not enough: in the meantime, the writer may
/// change the value so many times that the version is the same again.
pub(super) fn versioned_cache(world: &mut World, bits: u32) {
    const WRITES: u32 = 8;
    world.set_processors(1);
    let mut graph = Graph::new();
    let stage = graph.shared("cache", ());
    let (value, cached) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
    let (written, read) = (value.clone(), (value.clone(), cached.clone()));
    world.program(graph, move |_| {
        let version = Rc::new(Cell::new(0));
        let (value, cached) = read.clone();
        let seen = version.clone();
        stage.dispatch(move |_| async move {
            for _ in 0..3 {
                let (loaded, before) = (value.get(), seen.get());
                yield_now().await; // the load takes its time
                if seen.get() == before {
                    return cached.set(Some((loaded, value.get())));
                }
            }
        })?;
        let value = written.clone();
        stage.dispatch(move |_| async move {
            for _ in 0..WRITES {
                value.set(value.get() + 1);
                version.set((version.get() + 1) & ((1 << bits) - 1));
                yield_now().await;
            }
        })?;
        Ok(())
    });
    world.after_shutdown(move || {
        if let Some((loaded, actual)) = cached.get() {
            assert_eq!(loaded, actual, "the cache was filled with an old value");
        }
    });
}

#[test]
fn a_race_that_few_seeds_find_is_found() {
    let seeds = (0..200)
        .filter(|seed| failure(|| _ = sim::run(*seed, |w| versioned_cache(w, 3))).is_some());
    assert!(seeds.count() < 10, "many seeds find it");
    let found =
        failure(|| _ = sim::explore_all(Bounds::default(), |world| versioned_cache(world, 3)));
    assert!(found.unwrap().contains("an old value"));
}

#[test]
fn a_correct_program_is_explored_completely() {
    let coverage = sim::explore_all(Bounds::default(), |world| versioned_cache(world, 8));
    assert!(coverage.is_complete(), "{coverage}");
    assert!(
        coverage.runs > 50 && coverage.to_string().ends_with("all schedules explored"),
        "{coverage}"
    );
}

/// Three operations that suspend once, on one processor.
fn three_in_turn(world: &mut World, outcome: Rc<RefCell<Vec<i32>>>) {
    world.set_processors(1);
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    world.program(graph, move |_| {
        for number in 1..=3 {
            let log = outcome.clone();
            stage.dispatch(move |_| async move {
                log.borrow_mut().push(number);
                yield_now().await;
                log.borrow_mut().push(-number);
            })?;
        }
        Ok(())
    });
}

#[test]
fn every_order_that_is_allowed_occurs() {
    // Operations start in order and are resumed in any: 5 · 3 · 1 sequences.
    let (all, coverage) = outcomes(Bounds::default(), three_in_turn);
    assert_eq!(all.len(), 15, "{all:?}");
    let in_order = |log: &Vec<i32>| log.iter().filter(|n| **n > 0).eq([1, 2, 3].iter());
    assert!(all.iter().all(in_order) && coverage.is_complete(), "{coverage}");
}

#[test]
fn bounds_are_reported() {
    let explore = |change: fn(&mut Bounds)| outcomes(bounds(change), three_in_turn);
    let (all, coverage) = explore(|bounds| bounds.runs = 3);
    assert!(all.len() <= 3 && !coverage.ended && !coverage.is_complete());
    assert!(coverage.to_string().ends_with("stopped at the limit on runs"), "{coverage}");

    let (all, coverage) = explore(|bounds| bounds.steps = 5);
    assert!(all.is_empty() && coverage.ended && coverage.cut > 0 && !coverage.is_complete());

    let (one, first) = explore(|bounds| bounds.deviations = Some(0));
    let (more, second) = explore(|bounds| bounds.deviations = Some(1));
    assert!(one.len() == 1 && one.is_subset(&more) && (2..15).contains(&more.len()), "{more:?}");
    assert!(first.skipped > 0 && second.skipped > 0 && !second.is_complete());
}

#[test]
fn cohorts_have_every_size_within_the_bound() {
    let build = |world: &mut World, outcome: Rc<RefCell<Vec<usize>>>| {
        world.set_processors(1);
        let log = Arc::new(Mutex::new(Vec::new()));
        let (log_handle, mut graph) = (log.clone(), Graph::new());
        let batch = graph.stage("batch").cohort(
            move |_| log_handle.clone(),
            |log: &mut Arc<Mutex<Vec<usize>>>, cohort: &mut Cohort<u32, ()>| {
                log.lock().unwrap().push(cohort.len());
                cohort.iter_mut().for_each(|entry| entry.reply(()));
            },
        );
        let front = graph.shared("front", ());
        world.program(graph, move |_| {
            let (outcome, log) = (outcome.clone(), log.clone());
            front.dispatch(move |_| async move {
                phalanx::join((0..3).map(|n| batch.call(n)).collect::<Vec<_>>()).await;
                outcome.borrow_mut().append(&mut log.lock().unwrap());
            })?;
            Ok(())
        });
    };
    let (sizes, _) = outcomes(Bounds::default(), build);
    assert_eq!(sizes, BTreeSet::from([vec![1, 1, 1]]));
    let (sizes, coverage) = outcomes(bounds(|bounds| bounds.cohort = 3), build);
    assert_eq!(
        sizes,
        BTreeSet::from([vec![1, 1, 1], vec![1, 2], vec![2, 1], vec![3]]),
        "{coverage}"
    );
}

/// Programs of two processors whose steps depend on each other in many ways.
type Program = fn(&mut World, Rc<RefCell<Vec<u64>>>);

/// Calls in both directions, and a value that both processors change.
fn calls(world: &mut World, outcome: Rc<RefCell<Vec<u64>>>) {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", Mutex::new(1u64));
    world.program(graph, move |start| {
        let (here, log) = (start.processor(), outcome.clone());
        stage.dispatch(move |_| async move {
            let factor = here as u64 + 2;
            let seen = stage.call_on(1 - here, move |state| async move {
                let mut state = state.lock().unwrap();
                *state = *state * factor + 1;
                *state
            });
            let seen = seen.await.unwrap();
            log.borrow_mut().push(here as u64 * 1000 + seen);
        })?;
        Ok(())
    });
}

/// A wake-up by an oneshot channel from another processor, against a local operation.
fn channels(world: &mut World, outcome: Rc<RefCell<Vec<u64>>>) {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let ends = RefCell::new(Some(oneshot::shared::<u64>()));
    let receiver = Rc::new(RefCell::new(None));
    world.program(graph, move |start| {
        if start.processor() == 0 {
            let (sender, received) = ends.take().unwrap();
            *receiver.borrow_mut() = Some(received);
            stage.dispatch(move |_| async move {
                yield_now().await;
                sender.send(7);
            })?;
        } else {
            let (received, log) = (receiver.take().unwrap(), [outcome.clone(), outcome.clone()]);
            let [first, second] = log;
            stage.dispatch(move |_| async move {
                let value = received.await.unwrap_or(0);
                first.borrow_mut().push(value);
            })?;
            stage.dispatch(move |_| async move {
                yield_now().await;
                second.borrow_mut().push(8);
            })?;
        }
        Ok(())
    });
}

/// A session that ends while its operations are on their way to another processor.
fn sessions(world: &mut World, outcome: Rc<RefCell<Vec<u64>>>) {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", AtomicU64::new(0));
    world.program(graph, move |start| {
        if start.processor() > 0 {
            return Ok(());
        }
        let log = outcome.clone();
        stage.dispatch(move |state| async move {
            let session = Session::new();
            let far = session.scope(|| {
                stage.call_on(1, |state| async move {
                    state.fetch_add(1, Relaxed);
                    yield_now().await;
                    state.fetch_add(1, Relaxed)
                })
            });
            yield_now().await;
            session.end().await;
            let ended = u64::from(far.await == Err(CallError::Cancelled));
            log.borrow_mut().push(ended * 10 + state.load(Relaxed));
        })?;
        Ok(())
    });
}

/// A partition that moves while it is used.
fn moves(world: &mut World, outcome: Rc<RefCell<Vec<u64>>>) {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let table = graph.stage("table").partitions(1).partitioned(|_| Vec::<u64>::new());
    world.program(graph, move |start| {
        let log = outcome.clone();
        if start.processor() == 0 {
            stage.dispatch(move |_| async move {
                table.move_partition(0, 1).await.unwrap();
                log.borrow_mut().push(2);
            })?;
        } else {
            stage.dispatch(move |_| async move {
                table.call(0, |part| async move { part.with(|part| part.push(1)) }).await.unwrap();
                log.borrow_mut().push(1);
            })?;
        }
        Ok(())
    });
}

#[test]
fn merging_loses_no_outcome() {
    let programs: [(Program, usize); 4] = [(calls, 2), (channels, 2), (sessions, 2), (moves, 2)];
    for (at, (program, min_outcomes)) in programs.into_iter().enumerate() {
        let (every, plain) = outcomes(bounds(|bounds| bounds.merges = false), program);
        let (merged, coverage) = outcomes(Bounds::default(), program);
        assert_eq!(every, merged, "program {at}: {plain} and {coverage}");
        assert!(every.len() >= min_outcomes, "program {at}: {every:?}");
        assert!(coverage.is_complete() && coverage.runs <= plain.runs, "program {at}: {coverage}");
        if at == 0 {
            assert!(
                coverage.merged > 0 && coverage.runs < plain.runs * 3 / 4,
                "{plain}; {coverage}"
            );
        }
    }
}

/// Two operations that take two locks in opposite orders; the second one starts a step later.
fn philosophers(world: &mut World) {
    world.set_processors(1);
    let mut graph = Graph::new();
    let stage = graph.shared("forks", ());
    world.program(graph, move |_| {
        let forks = [(); 2].map(|()| Rc::new(Lock::default()));
        for (late, order) in [(false, [0, 1]), (true, [1, 0])] {
            let [first, second] = order.map(|fork: usize| forks[fork].clone());
            stage.dispatch(move |_| async move {
                if late {
                    yield_now().await;
                }
                first.lock().await;
                yield_now().await;
                second.lock().await;
                second.unlock();
                first.unlock();
            })?;
        }
        Ok(())
    });
}

#[test]
fn a_failing_schedule_is_told_and_repeated() {
    const NAME: &str = "simulation::exhaustive::a_failing_schedule_is_told_and_repeated";
    let found = failure(|| _ = sim::explore_all(Bounds::default(), philosophers));
    if std::env::var_os("PHALANX_SCHEDULE").is_some() {
        // The child: its exit code tells whether the schedule fails.
        return assert_eq!(found, None);
    }
    let found = found.expect("a deadlock");
    assert!(found.contains("\"forks\", suspended"), "{found}");
    let schedule = found.split("PHALANX_SCHEDULE=").nth(1).unwrap().split(' ').next().unwrap();
    let passes = |schedule: &str| {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", NAME]).env("PHALANX_SCHEDULE", schedule);
        child.output().unwrap().status.success()
    };
    assert!(!passes(schedule) && passes("0"), "{schedule}");
}

/// A lock for one waiter.
#[derive(Default)]
struct Lock {
    is_locked: Cell<bool>,
    waits: RefCell<Option<oneshot::LocalSender<()>>>,
}

impl Lock {
    async fn lock(&self) {
        while self.is_locked.replace(true) {
            let (sender, receiver) = oneshot::local();
            *self.waits.borrow_mut() = Some(sender);
            receiver.await;
        }
    }

    fn unlock(&self) {
        self.is_locked.set(false);
        if let Some(sender) = self.waits.take() {
            sender.send(());
        }
    }
}

#[test]
fn a_timeout_may_fire_early_if_time_may_pass() {
    let build = |world: &mut World, outcome: Rc<RefCell<Vec<bool>>>| {
        world.set_processors(1);
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        world.program(graph, move |_| {
            let log = outcome.clone();
            stage.dispatch(move |_| async move {
                let answer = stage.call(|_| async { yield_now().await });
                let in_time = timeout(Duration::from_secs(1), answer).await.is_ok();
                log.borrow_mut().push(in_time);
                sleep(Duration::from_secs(1)).await;
            })?;
            Ok(())
        });
    };
    let (in_time, coverage) = outcomes(Bounds::default(), build);
    assert_eq!(in_time, BTreeSet::from([vec![true]]), "{coverage}");
    let (any, coverage) = outcomes(bounds(|bounds| bounds.early_timers = true), build);
    assert_eq!(any, BTreeSet::from([vec![true], vec![false]]), "{coverage}");
    assert!(coverage.is_complete());
}

/// Operations of two full stages wait for each other's capacity. A waiting operation is in no queue, so both queues
/// become shorter, and no schedule gets stuck.
#[test]
fn capacity_alone_is_no_deadlock() {
    let coverage = sim::explore_all(Bounds::default(), |world| {
        world.set_processors(1);
        let mut graph = Graph::new();
        let stages = ["left", "right"].map(|name| graph.stage(name).capacity(1).shared(()));
        graph.calls(stages[0], stages[1]);
        graph.calls(stages[1], stages[0]);
        let cycles = graph.call_graph().cycles();
        assert!(cycles.len() == 1 && !cycles[0].can_deadlock());
        let done = Rc::new(Cell::new(0));
        let count = done.clone();
        world.program(graph, move |_| {
            for (own, other) in [(0, 1), (1, 0)] {
                let (other, count) = (stages[other], count.clone());
                stages[own].dispatch(move |_| async move {
                    other.wait_for_capacity().await;
                    let more = count.clone();
                    let passed = other.dispatch(move |_| async move { more.set(more.get() + 1) });
                    count.set(count.get() + u32::from(passed.is_ok()));
                })?;
            }
            Ok(())
        });
        world.after_shutdown(move || assert!(done.get() >= 2, "{}", done.get()));
    });
    assert!(coverage.is_complete(), "{coverage}");
}

#[test]
fn an_undeclared_call_fails_the_simulation() {
    let failed = failure(|| {
        sim::run(0, |world| {
            world.set_processors(1);
            let mut graph = Graph::new();
            let (first, second) = (graph.shared("first", ()), graph.shared("second", ()));
            graph.calls(first, ());
            world.program(graph, move |_| {
                Ok(first.dispatch(move |_| async move { _ = second.call(|_| async {}).await })?)
            });
        });
    });
    let failed = failed.expect("the call is not declared");
    assert!(failed.contains("\"first\" invokes \"second\""), "{failed}");
}
