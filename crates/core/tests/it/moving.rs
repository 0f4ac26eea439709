//! Partitions that move while operations arrive: nothing is lost, nothing runs twice, and there is
//! one owner at a time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::common::{Program, run};
use phalanx_core::{CallError, Graph, MoveError, sleep, yield_now};
use proptest::prelude::*;

const PROCESSORS: usize = 3;
const PARTITIONS: usize = 4;

/// Records which operations have run here, and asserts that no copy of the state exists.
struct Log {
    entries: Vec<usize>,
    alive: Arc<AtomicUsize>,
}

impl Log {
    fn new(alive: Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Relaxed);
        Self { entries: Vec::new(), alive }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Relaxed);
    }
}

#[derive(Clone, Debug)]
enum Event {
    /// An operation invoked from a processor on a key. It suspends this many times, or panics.
    Call(usize, u64, u8),
    Panic(usize, u64),
    Move(usize, usize, usize),
    Turn(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..PROCESSORS, any::<u64>(), 0u8..3).prop_map(|(at, key, n)| Event::Call(at, key, n)),
        1 => (0..PROCESSORS, any::<u64>()).prop_map(|(at, key)| Event::Panic(at, key)),
        2 => (0..PROCESSORS, 0..PARTITIONS, 0..PROCESSORS)
            .prop_map(|(at, partition, to)| Event::Move(at, partition, to)),
        6 => any::<u8>().prop_map(Event::Turn),
    ]
}

fn churn(events: &[Event]) {
    let alive = Arc::new(AtomicUsize::new(0));
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let token = alive.clone();
    let table = graph
        .stage("table")
        .max_cohort(2)
        .partitions(PARTITIONS)
        .partitioned(move |_| Log::new(token.clone()));
    let program = Program::new(graph, PROCESSORS);
    let (done, moves) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new((0, 0))));
    let mut calls = 0;
    for event in events {
        match event.clone() {
            Event::Turn(at) => {
                program.turn(at.into());
            }
            Event::Call(at, key, yields) => program.processors[at].enter(|| {
                let (id, done) = (calls, done.clone());
                calls += 1;
                let caller = main.dispatch(move |_| async move {
                    if yields == 0
                        && table.try_with_local(key, |log| log.entries.push(id)).is_some()
                    {
                        done.borrow_mut().push(id);
                        return;
                    }
                    let call = table.call(key, move |log| async move {
                        for _ in 0..yields {
                            yield_now().await;
                        }
                        log.with(|log| log.entries.push(id));
                        id
                    });
                    let id = call.await.unwrap();
                    done.borrow_mut().push(id);
                });
                caller.unwrap();
            }),
            Event::Panic(at, key) => program.processors[at].enter(|| {
                let caller = main.dispatch(move |_| async move {
                    let call =
                        table.call(key, |_| async { std::panic::resume_unwind(Box::new("so")) });
                    let failed: Result<(), _> = call.await;
                    assert!(matches!(failed, Err(CallError::Panicked { stage: "table", .. })));
                });
                caller.unwrap();
            }),
            Event::Move(at, partition, to) => program.processors[at].enter(|| {
                let counted = moves.clone();
                let moving = main.dispatch(move |_| async move {
                    let (started, finished) = counted.get();
                    counted.set((started + 1, finished));
                    let moved = table.move_partition(partition, to).await;
                    assert!(matches!(moved, Ok(()) | Err(MoveError::Busy)), "{moved:?}");
                    let (started, finished) = counted.get();
                    counted.set((started, finished + 1));
                });
                moving.unwrap();
            }),
        }
        assert_eq!(alive.load(Relaxed), PARTITIONS, "no state is copied or lost");
    }
    program.settle(250);
    assert_eq!(program.live(), [0; PROCESSORS]);
    assert_eq!(moves.get().0, moves.get().1);
    // Each partition has one owner, and all agree on it.
    let owners = |at: usize| -> Vec<usize> {
        program.processors[at].enter(|| (0..PARTITIONS).map(|part| table.owner(part)).collect())
    };
    assert!((1..PROCESSORS).all(|at| owners(at) == owners(0)));
    let mut done = done.take();
    done.sort_unstable();
    assert_eq!(done, (0..calls).collect::<Vec<_>>(), "each is answered once");
    // The operations that ran on all partitions, read from processor 0.
    let entries = Rc::new(RefCell::new(Vec::new()));
    program.processors[0].enter(|| {
        for key in 0..64u64 {
            let entries = entries.clone();
            let reading = main.dispatch(move |_| async move {
                let log = table.call(key << 58, |log| async move {
                    log.with(|log| std::mem::take(&mut log.entries))
                });
                let log = log.await.unwrap();
                entries.borrow_mut().extend(log);
            });
            reading.unwrap();
        }
    });
    program.settle(3);
    let mut entries = entries.take();
    entries.sort_unstable();
    assert_eq!(entries, (0..calls).collect::<Vec<_>>(), "each has run once");
    drop(program);
    assert_eq!(alive.load(Relaxed), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_doubled_by_moves(events in proptest::collection::vec(event(), 1..120)) {
        churn(&events);
    }
}

#[test]
fn a_move_that_would_wait_for_ever_is_given_up() {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let table = graph.stage("table").partitions(1).partitioned(|_| 0u32);
    let program = Program::new(graph, 2);
    let outcome = Rc::new(RefCell::new(Vec::new()));
    program.processors[0].enter(|| {
        let log = outcome.clone();
        let recursive = main.dispatch(move |_| async move {
            // The operation waits for another operation of its partition, which arrives when the partition is closed.
            let outer = table.call(1, move |state| async move {
                sleep(Duration::from_millis(5)).await;
                let inner = table.call(2, |state| async move {
                    state.with(|n| *n += 1);
                    state.with(|n| *n)
                });
                let result = inner.await;
                state.with(|_| result)
            });
            let result = outer.await.unwrap();
            log.borrow_mut().push(format!("{result:?}"));
        });
        recursive.unwrap();
        let log = outcome.clone();
        let moving = main.dispatch(move |_| async move {
            sleep(Duration::from_millis(2)).await;
            for _ in 0..2 {
                let moved = table.move_partition(0, 1).await;
                log.borrow_mut().push(format!("{moved:?}"));
                sleep(Duration::from_millis(2)).await;
            }
            let state = table.call(3, |state| async move { state.with(|n| *n) }).await;
            log.borrow_mut().push(format!("{state:?} on {}", table.owner(0)));
        });
        moving.unwrap();
    });
    program.settle(200);
    assert_eq!(*outcome.borrow(), ["Err(Busy)", "Ok(1)", "Ok(())", "Ok(1) on 1"]);
    assert_eq!(program.live(), [0, 0]);
}

/// Operations that wait for a move run in the order of their arrival.
#[test]
fn waiting_operations_keep_their_order() {
    let mut graph = Graph::new();
    let table = graph.stage("table").partitions(1).partitioned(|_| Vec::new());
    let main = graph.shared("main", ());
    let program = Program::new(graph, 2);
    program.processors[0].enter(|| {
        let slow = table.dispatch(0, |entries| async move {
            sleep(Duration::from_millis(5)).await;
            entries.with(|entries| assert!(entries.is_empty()));
        });
        slow.unwrap();
    });
    program.turn(0);
    program.processors[0].enter(|| {
        let moving = main.dispatch(move |_| async move {
            table.move_partition(0, 1).await.unwrap();
        });
        moving.unwrap();
    });
    for _ in 0..3 {
        program.turn(0);
    }
    program.processors[0].enter(|| {
        for n in 0..50u64 {
            table
                .dispatch(n, move |entries| async move { entries.with(|entries| entries.push(n)) })
                .unwrap();
        }
    });
    for _ in 0..3 {
        program.turn(0);
    }
    assert!(program.processors[0].live() > 50, "they wait");
    program.settle(20);
    let entries = Rc::new(RefCell::new(Vec::new()));
    let out = entries.clone();
    program.processors[0].enter(|| {
        let reading = main.dispatch(move |_| async move {
            let entries =
                table.call(0, |entries| async move { entries.with(std::mem::take) }).await;
            *out.borrow_mut() = entries.unwrap();
        });
        reading.unwrap();
    });
    program.settle(3);
    assert_eq!(*entries.borrow(), (0..50).collect::<Vec<_>>());
}

/// An operation that follows its partition is cancelled at the new owner.
#[test]
fn a_cancelled_operation_ends_at_the_new_owner() {
    let mut graph = Graph::new();
    let table = graph.stage("table").partitions(1).partitioned(|_| ());
    let main = graph.shared("main", ());
    let program = Program::new(graph, 2);
    let entries = Arc::new(AtomicUsize::new(0));
    let (calls, inner) = (entries.clone(), entries.clone());
    program.processors[0].enter(|| {
        table.dispatch(0, |_| sleep(Duration::from_millis(5))).unwrap();
    });
    program.turn(0);
    program.processors[0].enter(|| {
        let moving = main.dispatch(move |_| async move {
            table.move_partition(0, 1).await.unwrap();
        });
        moving.unwrap();
    });
    (0..3).for_each(|_| _ = program.turn(0));
    program.processors[0].enter(|| {
        let calling = main.dispatch(move |_| async move {
            let call = table.call(0, move |_| async move {
                inner.fetch_add(1, Relaxed);
                sleep(Duration::from_millis(50)).await;
                inner.fetch_add(1, Relaxed);
            });
            sleep(Duration::from_millis(20)).await;
            assert_eq!((calls.load(Relaxed), table.owner(0)), (1, 1));
            call.cancel();
            assert_eq!(call.await, Err(CallError::Cancelled));
        });
        calling.unwrap();
    });
    program.settle(100);
    assert_eq!(entries.load(Relaxed), 1, "it went on as an orphan");
    assert_eq!(program.live(), [0, 0]);
}

#[test]
fn partitions_move_between_threads() {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let table = graph.stage("table").partitions(6).partitioned(|_| 0usize);
    let remaining = Arc::new(AtomicUsize::new(PROCESSORS));
    run(graph, PROCESSORS, move |index, control| {
        let remaining = remaining.clone();
        main.dispatch(move |_| async move {
            for n in 0..500usize {
                if n % 25 == index {
                    let moved = table.move_partition(n / 25 % 6, (n + index) % PROCESSORS).await;
                    assert!(matches!(moved, Ok(()) | Err(MoveError::Busy)), "{moved:?}");
                }
                let key = (n as u64) << 55;
                table.call(key, |count| async move { count.with(|n| *n += 1) }).await.unwrap();
            }
            if remaining.fetch_sub(1, Relaxed) == 1 {
                let mut total = 0;
                for partition in 0..6u64 {
                    // The inverse of the multiplicative hash: a key for each partition.
                    let key = (0..1000).find(|key| table.partition_of(*key) == partition as usize);
                    let count = table.call(key.unwrap(), |count| async move { count.with(|n| *n) });
                    total += count.await.unwrap();
                }
                assert_eq!(total, PROCESSORS * 500);
                control.drain();
            }
        })
        .unwrap();
    });
}

/// Inline work runs here or not at all, and counts as an operation of the stage.
#[test]
fn at_once_is_here_or_not_at_all() {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let table = graph.stage("table").partitions(2).partitioned(|_| 0u32);
    let program = Program::new(graph, 2);
    for processor in &program.processors {
        processor.enter(|| {
            let caller = main.dispatch(move |_| async move {
                for key in [0, 1] {
                    let ran = table.try_with_local(key, |n| *n += 1).is_some();
                    assert_eq!(ran, table.is_local(key));
                    let partition = table.partition_of(key);
                    let ran = table.try_with_partition(partition, |n| *n).is_some();
                    assert_eq!(ran, table.is_local(key));
                }
            });
            caller.unwrap();
        });
    }
    program.settle(3);
    for processor in &program.processors {
        let profile = processor.control().profile();
        let completed = profile.processors[processor.index()].stages[1].completed;
        assert_eq!(completed.count, 2);
    }
}

#[test]
fn only_processors_with_a_core_own_partitions_at_first() {
    for (cores, owners) in [(1, 1), (2, 2), (3, 3), (8, 3)] {
        let mut graph = Graph::new();
        graph.measured_cores(cores);
        let stage = graph.stage("stage").partitions(7).partitioned(|number| number);
        let processors: Vec<_> =
            graph.build(3).into_iter().map(|builder| builder.build(Box::new(|| ()))).collect();
        processors[0].enter(|| {
            let actual: Vec<_> = (0..7).map(|partition| stage.owner(partition)).collect();
            assert_eq!(actual, (0..7).map(|partition| partition % owners).collect::<Vec<_>>());
        });
    }
}
