//! Inline execution: direct calls run in their callers, and otherwise behave like any operation.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::common::{Bench, Program, settle, single_processor};
use phalanx_core::{
    CallError, Graph, Processor, Session, SharedStage, StageView, join, oneshot, sleep, yield_now,
};

type Log = Rc<RefCell<Vec<&'static str>>>;

fn view(processor: &Processor, stage: usize) -> StageView {
    processor.control().profile().processors[0].stages[stage].clone()
}

/// Runs `parent` on its own stage, beside a direct stage; returns the latter's counters.
fn run_beside<Fut: Future<Output = ()> + 'static>(
    parent: impl FnOnce(SharedStage<()>, Log) -> Fut + 'static,
) -> (Vec<&'static str>, StageView) {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let b = graph.stage("b").direct().shared(());
    let (processor, world, log) = (single_processor(graph), Bench::default(), Log::default());
    let inner = log.clone();
    settle(&processor, &world, || a.dispatch(move |_| parent(b, inner)).unwrap());
    while processor.timers() > 0 {
        world.now.set(world.now.get() + 1_000_000);
        settle(&processor, &world, || ());
    }
    assert_eq!((processor.live(), processor.check_invariants()), (0, Ok(())));
    (log.take(), view(&processor, 1))
}

#[test]
fn a_child_runs_when_it_is_awaited_and_not_before() {
    let (log, view) = run_beside(|b, log| async move {
        for by_run in [false, true] {
            let inner = log.clone();
            let operation = move |_| async move {
                inner.borrow_mut().push("child");
                7
            };
            let result = if by_run {
                let child = b.run(operation);
                log.borrow_mut().push("parent goes on");
                child.await
            } else {
                let child = b.call(operation);
                log.borrow_mut().push("parent goes on");
                child.await
            };
            assert_eq!(result, Ok(7));
            log.borrow_mut().push("parent has the result");
        }
    });
    let once = ["parent goes on", "child", "parent has the result"];
    assert_eq!(log, [once, once].concat());
    assert_eq!((view.direct, view.started.count, view.completed.count), (2, 2, 2));
    assert_eq!(view.cohorts, 0, "nothing waited for a cohort");
}

#[test]
fn a_child_that_suspends_is_an_operation_like_any_other() {
    let (sender, receiver) = oneshot::local::<u8>();
    let (log, view) = run_beside(|b, log| async move {
        let inner = log.clone();
        let child = b.call(move |_| async move {
            inner.borrow_mut().push("waits");
            receiver.await
        });
        let _other = b.dispatch(move |_| async move { sender.send(5) });
        log.borrow_mut().push("parent waits");
        // The other operation was queued later, and waits for its cohort.
        assert_eq!(child.await, Ok(Some(5)));
        let slept = b.call(|_| sleep(Duration::from_millis(2))).await;
        assert_eq!(slept, Ok(()));
        assert_eq!(b.run(|_| async { yield_now().await }).await, Ok(()));
    });
    assert_eq!(log, ["parent waits", "waits"]);
    assert_eq!(view.suspended_now(), 0);
    assert_eq!(view.started.count + view.resumed.count, view.completed.count + view.suspended);
}

#[test]
fn wakes_of_the_caller_are_not_lost_while_a_child_runs_inside() {
    let (log, _) = run_beside(|b, log| async move {
        let (sender, receiver) = oneshot::local::<u8>();
        // The channel is awaited first, so that it has the waker. Then the child wakes the operation.
        let mut receiver = std::pin::pin!(receiver);
        let mut child = Box::pin(b.call(move |_| async move { sender.send(1) }));
        let mut done = false;
        let value = std::future::poll_fn(|context| {
            let value = receiver.as_mut().poll(context);
            if !done {
                done = child.as_mut().poll(context).is_ready();
            }
            value
        });
        assert_eq!(value.await, Some(1));
        log.borrow_mut().push("woken");
    });
    assert_eq!(log, ["woken"]);
}

#[test]
fn a_panic_fails_only_the_child_and_is_reported() {
    struct PanicRecorder(Bench, RefCell<Vec<String>>);
    impl phalanx_core::World for PanicRecorder {
        fn now(&self) -> u64 {
            self.0.now()
        }
        fn reap(&self) -> bool {
            self.0.reap()
        }
        fn submit(&self) {}
        fn park(&self, timeout: Option<u64>) {
            self.0.park(timeout);
        }
        fn on_panic(&self, report: &phalanx_core::PanicReport) {
            assert!(report.site.file().ends_with("direct.rs"), "{report}");
            self.1.borrow_mut().push(format!("{}: {}", report.stage, report.message));
        }
    }
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let b = graph.stage("b").direct().shared(());
    let (processor, world) =
        (single_processor(graph), PanicRecorder(Bench::default(), RefCell::default()));
    let errors = Rc::new(RefCell::new(Vec::new()));
    let out = errors.clone();
    processor.enter(|| {
        a.dispatch(move |_| async move {
            let early = b.run(|_| -> std::future::Ready<()> { panic!("before it starts") }).await;
            let inside = b.run(|_| async { panic!("inside") }).await;
            let called = b.call(|_| async { panic!("called") }).await;
            let succeeding = b.call(|_| async {}).await;
            out.borrow_mut().extend([early, inside, called, succeeding]);
        })
        .unwrap();
        while processor.turn(&world).ran > 0 {}
    });
    let messages: Vec<_> = errors
        .borrow()
        .iter()
        .map(|result| match result {
            Err(CallError::Panicked { stage: "b", message }) => message.to_string(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(messages, ["before it starts", "inside", "called", "Ok(())"]);
    let reports = ["b: before it starts", "b: inside", "b: called"];
    assert_eq!(*world.1.borrow(), reports);
    let view = view(&processor, 1);
    assert_eq!((view.panicked, view.direct, view.started.count), (3, 1, 4));
    assert_eq!(processor.live(), 0);
}

/// Calls itself to the given depth.
fn descend(stage: SharedStage<()>, depth: u32) -> Pin<Box<dyn Future<Output = u32>>> {
    Box::pin(async move {
        match depth {
            0 => 0,
            _ if depth.is_multiple_of(2) => {
                1 + stage.call(move |_| descend(stage, depth - 1)).await.unwrap()
            }
            _ => 1 + Box::pin(stage.run(move |_| descend(stage, depth - 1))).await.unwrap(),
        }
    })
}

#[test]
fn deep_recursion_continues_in_the_queue() {
    let (_, view) = run_beside(|b, _| async move {
        assert_eq!(descend(b, 20_000).await, 20_000);
    });
    assert_eq!(view.completed.count, 20_000);
    let queued = view.completed.count - view.direct;
    assert!(queued > 200, "not all inside of one another: {queued}");
}

#[test]
fn an_endless_caller_lets_others_run() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let b = graph.stage("b").direct().shared(());
    let (processor, world, stop) =
        (single_processor(graph), Bench::default(), Rc::new(Cell::new(false)));
    let (stopped, set) = (stop.clone(), stop);
    settle(&processor, &world, || {
        // It returns from a wait while the other one is in the stage.
        a.dispatch(move |_| async move {
            yield_now().await;
            set.set(true);
        })
        .unwrap();
        a.dispatch(move |_| async move {
            while !stopped.get() {
                b.run(|_| async {}).await.unwrap();
                b.call(|_| async {}).await.unwrap();
            }
        })
        .unwrap();
    });
    assert_eq!(processor.live(), 0);
}

#[test]
fn sessions_and_deadlines_hold_inside() {
    let (log, _) = run_beside(|b, log| async move {
        let expired = Session::with_deadline(Duration::ZERO);
        let ended = Session::new();
        let (inner, waits) = (log.clone(), log.clone());
        let call =
            expired.scope(|| b.call(move |_| async move { inner.borrow_mut().push("late") }));
        assert_eq!(call.await, Err(CallError::DeadlinePassed));
        // A child that ends its own session while it runs inside of its caller.
        let call = ended.scope(|| {
            b.call(move |_| async move {
                let own = Session::current().unwrap();
                waits.borrow_mut().push("ends itself");
                own.end().await;
                waits.borrow_mut().push("and goes on");
            })
        });
        assert_eq!(call.await, Err(CallError::Cancelled));
        ended.end().await;
        assert!(Session::current().is_none(), "the caller's own again");
        let call = ended.scope(|| b.call(|_| async {}));
        assert_eq!(call.await, Err(CallError::Cancelled));
    });
    assert_eq!(log, ["ends itself"]);
}

#[test]
fn a_caller_cancelled_by_its_child_stops_at_its_next_wait() {
    let log = Log::default();
    let (_, view) = run_beside({
        let log = log.clone();
        |b, _| async move {
            let session = Session::new();
            let inner = log.clone();
            let parent = session.scope(|| {
                b.call(move |_| async move {
                    let end = move |_| async move { drop(Session::current().unwrap().end()) };
                    let ended = b.call(end).await;
                    inner.borrow_mut().push(if ended.is_ok() { "child is done" } else { "not" });
                    yield_now().await;
                    inner.borrow_mut().push("went on");
                })
            });
            assert_eq!(parent.await, Err(CallError::Cancelled));
            session.end().await;
        }
    });
    assert_eq!(*log.borrow(), ["child is done"]);
    assert_eq!(view.cancelled, 1);
}

#[test]
fn an_operation_ends_with_the_future_of_its_run() {
    for direct in [true, false] {
        let mut graph = Graph::new();
        let a = graph.shared("a", ());
        let b = graph.stage("b");
        let b = if direct { b.direct().shared(()) } else { b.shared(()) };
        let (processor, world, log) = (single_processor(graph), Bench::default(), Log::default());
        let inner = log.clone();
        settle(&processor, &world, || {
            a.dispatch(move |_| async move {
                let mut run = Box::pin(b.run(move |_| async move {
                    yield_now().await;
                    yield_now().await;
                    inner.borrow_mut().push("went on");
                }));
                let mut begin = |context: &mut Context<'_>| Poll::Ready(run.as_mut().poll(context));
                assert!(poll_fn(&mut begin).await.is_pending());
            })
            .unwrap();
        });
        assert!(!log.borrow().contains(&"went on"), "direct: {direct}");
        assert_eq!((processor.live(), processor.check_invariants()), (0, Ok(())));
    }
}

#[test]
fn an_operation_on_a_partition_ends_with_the_future_of_its_run() {
    for (direct, processors) in [(true, 1), (false, 1), (false, 2)] {
        let mut graph = Graph::new();
        let a = graph.shared("a", ());
        let b = graph.stage("b").partitions(1);
        let b = if direct { b.direct().partitioned(|_| ()) } else { b.partitioned(|_| ()) };
        let program = Program::new(graph, processors);
        let continued = Arc::new(AtomicBool::new(false));
        let inner = continued.clone();
        // The last processor owns no partition if there are two.
        program.processors[processors - 1].enter(|| {
            a.dispatch(move |_| async move {
                let mut run = Box::pin(b.run(0, move |_| async move {
                    sleep(Duration::from_millis(5)).await;
                    inner.store(true, Relaxed);
                }));
                let mut begin = |context: &mut Context<'_>| Poll::Ready(run.as_mut().poll(context));
                assert!(poll_fn(&mut begin).await.is_pending());
                sleep(Duration::from_millis(1)).await;
            })
            .unwrap();
        });
        program.settle(20);
        assert!(!continued.load(Relaxed), "direct: {direct}, {processors} processors");
        assert!(program.live().iter().all(|live| *live == 0));
    }
}

#[test]
fn exclusive_stages_and_those_that_hold_run_in_cohorts() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let locked = graph.stage("locked").direct().exclusive(0u32);
    let held = graph.stage("held").direct().hold(4, Duration::from_millis(1)).shared(());
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || {
        a.dispatch(move |_| async move {
            let count = locked.call(|state| async move { state.with(|n| *n += 1) });
            count.await.unwrap();
            held.run(|_| async {}).await.unwrap();
        })
        .unwrap();
    });
    for stage in [1, 2] {
        let view = view(&processor, stage);
        assert_eq!((view.direct, view.cohorts, view.completed.count), (0, 1, 1));
    }
}

#[test]
fn local_partitions_run_inline_and_remote_ones_by_envelope() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let table = graph.stage("table").direct().partitions(8).partitioned(|n| n as u64);
    let program = crate::common::Program::new(graph, 2);
    let sum = Rc::new(Cell::new(0));
    let out = sum.clone();
    program.processors[0].enter(|| {
        a.dispatch(move |_| async move {
            for key in 0..100u64 {
                let read = |part: phalanx_core::Partition<u64>| async move { part.with(|n| *n) };
                let one = table.run(key, read).await.unwrap();
                let two = table.call(key, read).await.unwrap();
                assert_eq!((one, two), (table.partition_of(key) as u64, one));
                out.set(out.get() + usize::from(table.is_local(key)));
            }
        })
        .unwrap();
    });
    program.settle(2);
    let profile = program.processors[0].control().profile();
    assert!(sum.get() > 20, "some are here");
    assert_eq!(profile.processors[0].stages[1].direct, 2 * sum.get() as u64);
    assert_eq!(profile.processors[1].stages[1].direct, 0);
    assert_eq!(program.live(), [0, 0]);
}

#[test]
fn inline_calls_do_not_overtake_earlier_invocations() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let b = graph.stage("b").direct().shared(());
    let (processor, world, log) = (single_processor(graph), Bench::default(), Log::default());
    let inner = log.clone();
    settle(&processor, &world, || {
        a.dispatch(move |_| async move {
            let note = |name| {
                let log = inner.clone();
                move |_| async move { log.borrow_mut().push(name) }
            };
            b.dispatch(note("first")).unwrap();
            b.call(note("second")).await.unwrap();
            b.call(note("third")).await.unwrap();
            b.dispatch(note("fourth")).unwrap();
            b.run(note("fifth")).await.unwrap();
        })
        .unwrap();
    });
    assert_eq!(*log.borrow(), ["first", "second", "third", "fourth", "fifth"]);
    assert_eq!(view(&processor, 1).direct, 5, "those before run inside of the caller, too");
}

#[test]
fn joined_children_run_in_one_cohort() {
    let (_, view) = run_beside(|b, _| async move {
        let calls: Vec<_> = (0..10u32).map(|n| b.call(move |_| async move { n })).collect();
        assert_eq!(join(calls).await.into_iter().map(Result::unwrap).sum::<u32>(), 45);
    });
    assert_eq!((view.direct, view.cohorts, view.cohort_max), (0, 1, 10));
}
