//! Capacity: rejection by full stages, and wake-up of capacity waiters.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Wake, Waker};

use crate::common::{Bench, Program, settle, single_processor};
use phalanx_core::{CallError, Graph, Session, oneshot, yield_now};

#[test]
fn a_rejection_by_a_full_stage_contains_its_name() {
    let mut graph = Graph::new();
    graph.max_operations(6);
    let small = graph.stage("small").capacity(3).shared(());
    let other = graph.shared("other", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    let full = |stage, bound| Err(CallError::Full { stage, bound });
    settle(&processor, &world, || {
        for _ in 0..3 {
            assert!(small.has_capacity());
            small.dispatch(|_| async {}).unwrap();
        }
        assert!(!small.has_capacity() && other.has_capacity());
        let dropped = Rc::new(());
        let held = dropped.clone();
        assert_eq!(small.dispatch(move |_| async move { drop(held) }), full(Some("small"), 3));
        assert_eq!(Rc::strong_count(&dropped), 1, "what was refused is dropped");
        assert_eq!(small.call(|_| async {}).detach(), full(Some("small"), 3));
        let mut refused = Box::pin(small.call(|_| async {}));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let polled = refused.as_mut().poll(&mut context);
        assert_eq!(polled, std::task::Poll::Ready(full(Some("small"), 3)));
        for _ in 0..3 {
            other.dispatch(|_| async {}).unwrap();
        }
        assert_eq!(other.dispatch(|_| async {}), full(None, 6));
    });
    assert_eq!(processor.live(), 0);
    assert_eq!(processor.control().profile().processors[0].stages[0].rejected, 3);
    let text = CallError::Full { stage: Some("small"), bound: 3 }.to_string();
    assert_eq!(
        text,
        "the queue of stage \"small\" is full (capacity 3); retry later or raise the capacity"
    );
}

#[test]
fn re_enabled_operations_are_not_rejected() {
    let mut graph = Graph::new();
    let small = graph.stage("small").capacity(2).shared(());
    let (processor, world, done) =
        (single_processor(graph), Bench::default(), Rc::new(Cell::new(0)));
    let mut senders = Vec::new();
    settle(&processor, &world, || {
        for _ in 0..200 {
            let (sender, event) = oneshot::local();
            senders.push(sender);
            let done = done.clone();
            small
                .dispatch(move |_| async move {
                    event.await.unwrap();
                    yield_now().await;
                    done.set(done.get() + 1);
                })
                .unwrap();
            processor.turn(&world);
        }
        assert!(small.has_capacity());
        senders.into_iter().for_each(|sender| sender.send(()));
        assert!(!small.has_capacity());
    });
    assert_eq!((done.get(), processor.live()), (200, 0));
}

/// The last cohort leaves the queue empty and wakes the operation that waits, which makes the stage ready again.
#[test]
fn an_operation_waits_for_the_capacity_of_its_own_stage() {
    let mut graph = Graph::new();
    let small = graph.stage("small").capacity(2).shared(());
    let (processor, world, ran) =
        (single_processor(graph), Bench::default(), Rc::new(Cell::new(0)));
    let counted = ran.clone();
    settle(&processor, &world, || {
        let produces = move |_| async move {
            for _ in 0..20 {
                small.wait_for_capacity().await;
                let counted = counted.clone();
                small.dispatch(move |_| async move { counted.set(counted.get() + 1) }).unwrap();
            }
        };
        small.dispatch(produces).unwrap();
    });
    assert_eq!((ran.get(), processor.live()), (20, 0));
}

#[test]
fn a_producer_that_waits_for_capacity_is_never_rejected() {
    let mut graph = Graph::new();
    let source = graph.shared("source", ());
    let sink = graph.stage("sink").capacity(8).max_cohort(3).shared(());
    let (processor, world, ran) =
        (single_processor(graph), Bench::default(), Rc::new(Cell::new(0)));
    settle(&processor, &world, || {
        let ran = ran.clone();
        source
            .dispatch(move |_| async move {
                for _ in 0..1000 {
                    sink.wait_for_capacity().await;
                    let ran = ran.clone();
                    sink.dispatch(move |_| async move { ran.set(ran.get() + 1) }).unwrap();
                }
            })
            .unwrap();
    });
    assert_eq!((ran.get(), processor.live()), (1000, 0));
    let profile = processor.control().profile();
    let stages = &profile.processors[0].stages;
    assert_eq!((stages[1].rejected, stages[1].queue_length_max), (0, 8));
    // The waiter is woken when half of the queue is free, not after each operation.
    assert!(stages[0].suspended <= 1000 / 4 + 1, "{}", stages[0].suspended);
}

#[test]
fn all_capacity_waiters_are_woken_and_a_cancelled_one_is_not_missed() {
    let mut graph = Graph::new();
    let source = graph.shared("source", ());
    let sink = graph.stage("sink").capacity(4).shared(());
    let (processor, world, order) =
        (single_processor(graph), Bench::default(), Rc::new(RefCell::new(Vec::new())));
    let log = order.clone();
    settle(&processor, &world, || {
        let session = Session::new();
        for _ in 0..4 {
            sink.dispatch(|_| async {}).unwrap();
        }
        for n in 0..5 {
            let log = log.clone();
            let wait = move |_| async move {
                sink.wait_for_capacity().await;
                log.borrow_mut().push(n);
            };
            if n == 2 {
                session.scope(|| source.dispatch(wait)).unwrap();
            } else {
                source.dispatch(wait).unwrap();
            }
        }
        source.dispatch(move |_| async move { session.end().await }).unwrap();
    });
    order.borrow_mut().sort_unstable();
    assert_eq!(*order.borrow(), [0, 1, 3, 4]);
    assert_eq!(processor.live(), 0);
}

#[test]
fn a_waiter_ends_with_its_program() {
    let mut graph = Graph::new();
    let source = graph.shared("source", ());
    let sink = graph.stage("sink").capacity(1).shared(());
    crate::common::run(graph, 1, |_, control| {
        sink.dispatch(move |_| async move { control.end() }).unwrap();
        source.dispatch(move |_| async move { sink.wait_for_capacity().await }).unwrap();
    });
}

#[test]
fn the_bound_applies_to_remote_invocations() {
    let mut graph = Graph::new();
    let source = graph.shared("source", ());
    let sink = graph.stage("sink").capacity(5).shared(());
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    static REFUSED: AtomicU32 = AtomicU32::new(0);
    crate::common::run(graph, 2, |index, control| {
        if index > 0 {
            return;
        }
        source
            .dispatch(move |_| async move {
                for _ in 0..3 {
                    // Nothing leaves before this operation suspends, so the count is exact.
                    let calls: Vec<_> = (0..9).map(|_| sink.call_on(1, |_| async {})).collect();
                    for call in calls {
                        let counter = match call.await {
                            Ok(()) => &TAKEN,
                            Err(CallError::Full { stage: Some("sink"), bound: 5 }) => &REFUSED,
                            Err(other) => panic!("{other}"),
                        };
                        counter.fetch_add(1, Ordering::Relaxed);
                    }
                }
                let sink = &control.profile().processors[0].stages[1];
                assert_eq!((sink.rejected, sink.shed.full), (12, 12));
                control.drain();
            })
            .unwrap();
    });
    assert_eq!((TAKEN.load(Ordering::Relaxed), REFUSED.load(Ordering::Relaxed)), (15, 12));
}

/// A producer that tries again after each rejection lets the outbox leave, and other operations run.
#[test]
fn a_producer_waits_for_the_queue_of_another_processor() {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let table = graph.stage("table").partitions(2).capacity(16).partitioned(|_| 0);
    let (program, rejected) = (Program::new(graph, 2), Rc::new(Cell::new(0)));
    let counted = rejected.clone();
    program.processors[0].enter(|| {
        let key = (0..).find(|key| table.partition_of(*key) == 1).unwrap();
        let produces = main.dispatch(move |_| async move {
            for _ in 0..200 {
                let add = || table.dispatch(key, |part| async move { part.with(|n| *n += 1) });
                while add().is_err() {
                    counted.set(counted.get() + 1);
                    assert!(counted.get() < 100_000, "the wait never suspends");
                    table.wait_for_capacity().await;
                }
            }
        });
        produces.unwrap();
    });
    program.settle(3);
    assert!(rejected.get() > 0);
    assert_eq!(program.live(), [0, 0]);
    let ran = program.processors[0].control().profile().processors[1].stages[1].completed.count;
    assert_eq!(ran, 200);
}

#[test]
fn a_producer_waits_for_room_on_its_processor() {
    let mut graph = Graph::new();
    graph.max_operations(4);
    let main = graph.shared("main", ());
    let work = graph.shared("work", ());
    let (processor, world, ran) =
        (single_processor(graph), Bench::default(), Rc::new(Cell::new(0)));
    settle(&processor, &world, || {
        let ran = ran.clone();
        let produces = main.dispatch(move |_| async move {
            let mut rejected = 0;
            for _ in 0..50 {
                let counted = ran.clone();
                let add = || {
                    let ran = counted.clone();
                    work.dispatch(move |_| async move { ran.set(ran.get() + 1) })
                };
                while add() == Err(CallError::Full { stage: None, bound: 4 }) {
                    rejected += 1;
                    assert!(rejected < 100_000, "the wait never suspends");
                    work.wait_for_capacity().await;
                }
            }
        });
        produces.unwrap();
    });
    assert_eq!((ran.get(), processor.live()), (50, 0));
}

/// Each target has a bound.
#[test]
fn unsent_invocations_count_for_their_own_target() {
    let mut graph = Graph::new();
    let sink = graph.stage("sink").capacity(5).shared(());
    let program = Program::new(graph, 3);
    let accepted = program.processors[0].enter(|| {
        let targets = [1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2];
        let calls = targets.map(|target| sink.call_on(target, |_| async {}));
        calls.into_iter().filter_map(|call| call.detach().ok()).count()
    });
    assert_eq!(accepted, 10);
    program.settle(3);
    assert_eq!(program.live(), [0, 0, 0]);
}

#[test]
fn a_wait_that_is_dropped_leaves_no_waker() {
    struct IgnoresWakes;
    impl Wake for IgnoresWakes {
        fn wake(self: Arc<Self>) {}
    }
    let mut graph = Graph::new();
    let sink = graph.stage("sink").capacity(1).shared(());
    let (processor, world) = (single_processor(graph), Bench::default());
    let wake = Arc::new(IgnoresWakes);
    let waker = Waker::from(wake.clone());
    settle(&processor, &world, || {
        sink.dispatch(|_| async {}).unwrap();
        let mut waits = [sink.wait_for_capacity(), sink.wait_for_capacity()].map(Box::pin);
        for _ in 0..3 {
            for wait in &mut waits {
                assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            }
        }
        assert_eq!(Arc::strong_count(&wake), 4);
        let [one, _two] = waits;
        drop(one);
        assert_eq!(Arc::strong_count(&wake), 3, "the other one waits");
    });
    assert_eq!(Arc::strong_count(&wake), 2);
}
