//! Partitions of a sleeping processor that a caller's processor takes over.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::common::{Bench, Program, run};
use phalanx_core::{Graph, PartitionedStage, SharedStage, World, sleep, yield_now};

/// Two processors; partition 0 belongs to the first one, partition 1 to the second one.
struct TwoProcessors {
    program: Program,
    main: SharedStage<()>,
    table: PartitionedStage<Vec<usize>>,
    results: Rc<RefCell<Vec<usize>>>,
}

impl TwoProcessors {
    fn new() -> Self {
        let mut graph = Graph::new();
        let main = graph.shared("main", ());
        let table = graph.stage("table").partitions(2).migrating(|_| Vec::new());
        Self { program: Program::new(graph, 2), main, table, results: Rc::default() }
    }

    /// Processor `at` pushes `value` to partition 1.
    fn push(&self, at: usize, value: usize) {
        let (table, results) = (self.table, self.results.clone());
        self.program.processors[at].enter(|| {
            let call = table.call_partition(1, move |part| async move {
                part.with(|values| values.push(value));
                value
            });
            let caller = self.main.dispatch(move |_| async move {
                let value = call.await.unwrap();
                results.borrow_mut().push(value);
            });
            caller.unwrap();
        });
    }

    /// Keeps both processors busy: partitions leave a processor only while it has operations.
    fn keep_busy(&self) {
        for processor in &self.program.processors {
            let wait = |_: phalanx_core::Shared<()>| std::future::pending();
            processor.enter(|| self.main.dispatch(wait)).unwrap();
        }
    }

    /// Sets the number of active processors on processor `at`, without a turn.
    fn gather(&self, at: usize, active: usize) {
        self.program.processors[at].enter(|| phalanx_core::gather_partitions(active));
    }

    /// Sets the number on both processors.
    fn gather_all(&self, active: usize) {
        (0..2).for_each(|at| self.gather(at, active));
    }

    /// The number of turns that the loop runs before it gives partitions back.
    fn run_long(&self) {
        for _ in 0..600 {
            (0..2).for_each(|at| _ = self.program.turn(at));
        }
    }

    fn owner(&self) -> usize {
        self.program.processors[0].enter(|| self.table.owner(1))
    }

    fn sleep(&self, at: usize) -> bool {
        self.program.processors[at].stepping().sleep().is_some()
    }

    fn wake(&self, at: usize) {
        self.program.processors[at].stepping().wake();
    }
}

#[test]
fn a_sleeping_owner_is_not_woken() {
    let two = TwoProcessors::new();
    assert!(two.sleep(1));
    two.push(0, 7);
    while two.program.turn(0) {}
    assert_eq!((two.owner(), &*two.results.borrow()), (0, &vec![7]));
    two.wake(1);
    two.push(1, 8);
    two.program.settle(0);
    assert_eq!((two.owner(), &*two.results.borrow()), (0, &vec![7, 8]), "the state has one owner");
}

#[test]
fn partitions_leave_an_inactive_processor_and_return() {
    let two = TwoProcessors::new();
    two.keep_busy();
    let gather = |at: usize, active| {
        two.gather(at, active);
        two.program.settle(0);
    };
    two.push(1, 4);
    two.program.settle(0);
    gather(1, 1);
    assert_eq!(two.owner(), 0);
    assert!(two.sleep(0));
    two.push(1, 6);
    assert_eq!(two.owner(), 0, "an inactive processor takes none over");
    two.wake(0);
    two.program.settle(0);
    gather(1, 2);
    gather(0, 2);
    assert_eq!((two.owner(), &*two.results.borrow()), (1, &vec![4, 6]));
}

#[test]
fn a_partition_in_use_leaves_an_inactive_processor_later() {
    let two = TwoProcessors::new();
    two.keep_busy();
    let table = two.table;
    two.program.processors[1].enter(|| {
        let inside = table.call_partition(1, |part| async move {
            sleep(Duration::from_millis(500)).await;
            part.with(|values| values.push(1));
        });
        inside.detach().unwrap();
    });
    two.program.turn(1);
    two.gather_all(1);
    two.program.settle(300);
    two.run_long();
    assert_eq!(two.owner(), 1, "in use");
    two.program.settle(200);
    two.run_long();
    assert_eq!(two.owner(), 1, "not tried again yet");
    two.program.settle(400);
    two.run_long();
    assert_eq!(two.owner(), 0);
}

#[test]
fn a_partition_that_arrives_at_an_inactive_processor_leaves_it() {
    let two = TwoProcessors::new();
    two.keep_busy();
    two.gather_all(1);
    two.program.settle(0);
    assert_eq!(two.owner(), 0);
    // The partition is about to return when its first owner becomes inactive again.
    two.gather_all(2);
    two.gather_all(1);
    two.program.settle(0);
    two.run_long();
    assert_eq!(two.owner(), 0);
}

#[test]
fn partitions_of_a_processor_without_operations_leave_it_when_it_has_some() {
    let two = TwoProcessors::new();
    two.program.settle(0);
    two.gather_all(1);
    two.program.settle(0);
    assert_eq!(two.owner(), 1);
    two.keep_busy();
    two.run_long();
    assert_eq!(two.owner(), 0);
}

#[test]
fn an_owner_that_is_awake_keeps_its_partition() {
    let two = TwoProcessors::new();
    two.push(0, 7);
    two.program.settle(0);
    assert_eq!((two.owner(), &*two.results.borrow()), (1, &vec![7]));
}

#[test]
fn a_partition_with_an_operation_inside_stays() {
    let two = TwoProcessors::new();
    let table = two.table;
    two.program.processors[1].enter(|| {
        let inside = table.call_partition(1, |part| async move {
            sleep(Duration::from_secs(1)).await;
            part.with(|values| values.push(1));
        });
        inside.detach().unwrap();
    });
    while two.program.turn(1) {}
    assert!(two.sleep(1));
    two.push(0, 2);
    assert!(!two.program.turn(1) || two.owner() == 1);
    two.wake(1);
    two.program.settle(1001);
    assert_eq!((two.owner(), &*two.results.borrow()), (1, &vec![2]));
}

#[test]
fn an_earlier_invocation_in_the_outbox_stays_the_earlier_one() {
    let two = TwoProcessors::new();
    two.push(0, 1);
    assert!(two.sleep(1), "the first invocation has not been sent");
    two.push(0, 2);
    two.wake(1);
    two.program.settle(0);
    let values = Rc::new(RefCell::new(Vec::new()));
    let (table, seen) = (two.table, values.clone());
    two.program.processors[1].enter(|| {
        let reads = two.main.dispatch(move |_| async move {
            let call =
                table.call_partition(1, |part| async move { part.with(|value| value.clone()) });
            *seen.borrow_mut() = call.await.unwrap();
        });
        reads.unwrap();
    });
    two.program.settle(0);
    assert_eq!(*values.borrow(), [1, 2]);
}

#[test]
fn a_saturated_processor_gives_partitions_back_and_takes_none() {
    let two = TwoProcessors::new();
    let now = &two.program.world.now;
    assert!(two.sleep(1));
    two.push(0, 1);
    while two.program.turn(0) {}
    assert_eq!(two.owner(), 0);
    two.wake(1);
    let until = Duration::from_nanos(now.get()) + Duration::from_millis(550);
    two.program.processors[0].enter(|| {
        let works = two.main.dispatch(move |_| async move {
            while phalanx_core::now() < until {
                yield_now().await;
            }
        });
        works.unwrap();
    });
    // Turns of a millisecond each, without a pause.
    for _ in 0..600 {
        now.set(now.get() + 1_000_000);
        two.program.turn(0);
        two.program.turn(1);
    }
    assert_eq!(two.owner(), 1, "given back");
    assert!(two.sleep(1));
    two.push(0, 2);
    two.program.turn(0);
    assert_eq!(two.owner(), 1, "not taken by a saturated processor");
    two.wake(1);
    two.program.settle(0);
    assert_eq!(*two.results.borrow(), [1, 2]);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Turn(usize),
    Sleep(usize),
    Call(usize),
}

/// All sequences of steps of two processors, up to a length: nothing is lost or run twice, and each processor's
/// operations run in the order of their invocation.
#[test]
fn two_processors_keep_the_order() {
    const LENGTH: u32 = 5;
    let steps: Vec<Step> =
        (0..2).flat_map(|at| [Step::Turn(at), Step::Sleep(at), Step::Call(at)]).collect();
    let mut take_overs = 0;
    for sequence in 0..steps.len().pow(LENGTH) {
        let sequence = (0..LENGTH).map(|n| steps[sequence / steps.len().pow(n) % steps.len()]);
        let sequence: Vec<Step> = sequence.collect();
        let (two, mut asleep, mut calls) = (TwoProcessors::new(), [false; 2], [0; 2]);
        for step in &sequence {
            if let Step::Turn(at) | Step::Call(at) = *step
                && std::mem::take(&mut asleep[at])
            {
                two.wake(at);
            }
            match *step {
                Step::Turn(at) => _ = two.program.turn(at),
                Step::Sleep(at) => asleep[at] = asleep[at] || two.sleep(at),
                Step::Call(at) => {
                    two.push(at, 10 * calls[at] + at);
                    calls[at] += 1;
                }
            }
        }
        (0..2).filter(|at| asleep[*at]).for_each(|at| two.wake(at));
        take_overs += usize::from(two.owner() == 0);
        two.program.settle(0);
        for (at, calls) in calls.into_iter().enumerate() {
            let results = two.results.borrow();
            let own: Vec<_> = results.iter().filter(|id| **id % 10 == at).copied().collect();
            let all: Vec<_> = (0..calls).map(|n| 10 * n + at).collect();
            assert_eq!(own, all, "{sequence:?}");
        }
        assert_eq!(two.program.live(), [0; 2], "{sequence:?}");
    }
    assert!(take_overs > 0, "some partitions were taken over");
}

/// Threads that sleep and wake while they call each other's partitions.
#[test]
fn threads_take_partitions_over() {
    const CALLS: usize = if cfg!(miri) { 30 } else { 2000 };
    const PROCESSORS: usize = 3;
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let total = Arc::new(AtomicUsize::new(0));
    let table = graph.stage("table").partitions(4).migrating(|_| 0usize);
    let (running, counted) = (Arc::new(AtomicUsize::new(PROCESSORS)), total.clone());
    let _ = run(graph, PROCESSORS, move |at, control| {
        let (running, counted) = (running.clone(), counted.clone());
        let calls = main.dispatch(move |_| async move {
            for n in 0..CALLS {
                let key = (n * 7 + at) as u64;
                let call = table.call(key, move |part| async move {
                    if n.is_multiple_of(16) {
                        yield_now().await;
                    }
                    part.with(|count| *count += 1);
                });
                call.await.unwrap();
                if n.is_multiple_of(8) {
                    sleep(Duration::from_micros(300)).await;
                }
            }
            if running.fetch_sub(1, Relaxed) == 1 {
                for partition in 0..table.partitions_count() {
                    let call =
                        table.call_partition(partition, |part| async move { part.with(|n| *n) });
                    counted.fetch_add(call.await.unwrap(), Relaxed);
                }
                control.drain();
            }
        });
        calls.unwrap();
    });
    assert_eq!(total.load(Relaxed), PROCESSORS * CALLS);
}

/// A world that invokes an operation in its sleep.
struct RepeatedCalls(PartitionedStage<Vec<usize>>, Bench);

impl World for RepeatedCalls {
    fn now(&self) -> u64 {
        self.1.now()
    }

    fn reap(&self) -> bool {
        false
    }

    fn submit(&self) {}

    fn park(&self, _: Option<u64>) {
        let _ = self.0.try_with_local(0, |_| ());
    }
}

#[test]
#[should_panic(expected = "this thread runs no program")]
fn nothing_is_invoked_in_a_sleep() {
    let mut graph = Graph::new();
    let table = graph.stage("table").partitions(1).migrating(|_| Vec::new());
    let processor = graph.build(1).remove(0).build(Box::new(|| ()));
    processor.run(&RepeatedCalls(table, Bench::default()), 0);
}

/// A sleeping processor that is dropped is visited no more.
#[test]
fn a_processor_that_was_dropped_in_its_sleep() {
    let mut two = TwoProcessors::new();
    assert!(two.sleep(1));
    drop(two.program.processors.pop());
    two.push(0, 1);
    assert_eq!(two.owner(), 1);
    two.program.turn(0);
}

/// Requests that are far apart: in the first turn after each sleep, a processor has been idle.
#[test]
fn a_processor_takes_over_in_the_first_turn_after_a_sleep() {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let table = graph.stage("table").partitions(8).migrating(|_| 0);
    let program = Program::new(graph, 2);
    let [first, second] = &program.processors[..] else { unreachable!() };
    first.enter(|| {
        let control = first.control();
        let requests = move |_| async move {
            for partition in 0..8 {
                sleep(Duration::from_millis(50)).await;
                let call = table.call_partition(partition, |part| async move {
                    part.with(|n| *n += 1);
                });
                call.await.unwrap();
            }
            control.drain();
        };
        main.dispatch(requests).unwrap();
    });
    assert!(!second.stepping().end_turn() && second.stepping().sleep().is_some());
    // The second processor is not turned, so a call that crossed would not return.
    first.run(&program.world, 0);
    let profile = first.control().profile();
    assert_eq!((profile.processors[0].take_overs, profile.processors[1].turns), (4, 0));
    second.stepping().wake();
}
