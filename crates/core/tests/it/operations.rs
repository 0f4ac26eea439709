//! Guarantees of operations, on one processor with virtual time.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use crate::common::{Bench, settle, single_processor};
use phalanx_core::{CallError, Graph, Session, join, oneshot, sleep, timeout, yield_now};

type Log = Rc<RefCell<Vec<&'static str>>>;

#[test]
fn a_child_runs_after_its_parent_suspends_and_returns_its_result() {
    let mut graph = Graph::new();
    let (a, b) = (graph.shared("a", 1u32), graph.shared("b", 2u32));
    let (processor, world, log) = (single_processor(graph), Bench::default(), Log::default());
    let seen = log.clone();
    settle(&processor, &world, || {
        a.dispatch(move |one| async move {
            let log = seen.clone();
            let child = b.call(move |two| async move {
                log.borrow_mut().push("child");
                *two
            });
            seen.borrow_mut().push("parent goes on");
            assert_eq!(child.await.unwrap() + *one, 3);
            seen.borrow_mut().push("parent has the result");
        })
        .unwrap();
    });
    assert_eq!(*log.borrow(), ["parent goes on", "child", "parent has the result"]);
    assert_eq!(processor.live(), 0);
}

#[test]
fn a_join_re_enables_its_parent_once() {
    let mut graph = Graph::new();
    let (a, b) = (graph.shared("a", ()), graph.shared("b", ()));
    let (processor, world, sum) =
        (single_processor(graph), Bench::default(), Rc::new(Cell::new(0)));
    let out = sum.clone();
    settle(&processor, &world, || {
        a.dispatch(move |_| async move {
            let calls: Vec<_> = (0..10u32).map(|n| b.call(move |_| async move { n })).collect();
            let all = join(calls).await;
            let pair = join((b.call(|_| async { 1u8 }), b.call(|_| async { "x" }))).await;
            assert_eq!(pair, (Ok(1), Ok("x")));
            out.set(all.into_iter().map(Result::unwrap).sum());
        })
        .unwrap();
    });
    assert_eq!(sum.get(), 45);
    let profile = processor.control().profile();
    let stage = &profile.processors[0].stages[0];
    assert_eq!((stage.started.count, stage.resumed.count, stage.completed.count), (1, 2, 1));
    assert_eq!(profile.processors[0].stages[1].completed.count, 12);
    assert_eq!(profile.processors[0].arcs[0][1], 12, "from a to b");
    assert_eq!(profile.processors[0].arcs[1][0], 2, "b woke a twice");
}

#[test]
fn a_panic_ends_its_operation_alone() {
    let mut graph = Graph::new();
    let (a, b) = (graph.shared("a", ()), graph.shared("b", ()));
    let (processor, world, ok) = (single_processor(graph), Bench::default(), Rc::new(Cell::new(0)));
    let out = ok.clone();
    settle(&processor, &world, || {
        a.dispatch(move |_| async move {
            let early = b.call(|_| -> std::future::Ready<()> { panic!("before {}", "start") });
            let late = b.call(|_| async {
                yield_now().await;
                panic!("later");
            });
            let fine = b.call(|_| async { 7 });
            let message = |error| match error {
                CallError::Panicked { stage: "b", message } => message.into_string(),
                other => panic!("{other}"),
            };
            assert_eq!(message(early.await.unwrap_err()), "before start");
            let (late, fine): (Result<(), _>, _) = join((late, fine)).await;
            assert_eq!(message(late.unwrap_err()), "later");
            out.set(fine.unwrap());
        })
        .unwrap();
    });
    assert_eq!(ok.get(), 7);
    assert_eq!(processor.live(), 0);
    assert_eq!(processor.control().profile().processors[0].stages[1].panicked, 2);
}

#[test]
fn policies_reach_their_state() {
    let mut graph = Graph::new();
    let table = graph.stage("table").partitions(3).partitioned(|n| vec![n]);
    let count = graph.exclusive("count", 0u32);
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || {
        for key in 0..100u64 {
            table
                .dispatch(key, move |part| async move {
                    part.with(|rows| assert_eq!(rows[0], part.index()));
                    let seen = count.call(|count| async move {
                        count.with(|n| {
                            *n += 1;
                            *n
                        })
                    });
                    part.with(|rows| rows.push(0));
                    assert!(seen.await.unwrap() <= 100);
                })
                .unwrap();
        }
    });
    settle(&processor, &world, || {
        count.dispatch(|count| async move { count.with(|n| assert_eq!(*n, 100)) }).unwrap();
    });
    let profile = processor.control().profile();
    assert_eq!(profile.processors[0].stages[1].completed.count, 101);
    assert_eq!(profile.processors[0].stages[1].panicked, 0);
}

#[test]
fn an_exclusive_state_is_out_of_reach_elsewhere() {
    let mut graph = Graph::new();
    let (other, count) = (graph.shared("other", ()), graph.exclusive("count", 0u32));
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || {
        count
            .dispatch(move |state| async move {
                let stolen = other.call(move |_| async move { state.with(|n| *n) });
                assert!(matches!(stolen.await, Err(CallError::Panicked { .. })));
            })
            .unwrap();
    });
    assert_eq!(processor.control().profile().processors[0].stages[1].panicked, 0);
}

#[test]
fn cohorts_contain_all_queued_operations_up_to_the_bound() {
    let mut graph = Graph::new();
    let a = graph.stage("a").max_cohort(8).shared(());
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || {
        (0..20).for_each(|_| a.dispatch(|_| async {}).unwrap());
    });
    let stage = &processor.control().profile().processors[0].stages[0];
    assert_eq!((stage.cohorts, stage.cohort_max, stage.queue_length_max), (3, 8, 20));
    assert_eq!(stage.cohort_sizes, [0, 0, 1, 2, 0, 0, 0, 0]);
}

#[test]
fn at_the_bound_invocations_are_rejected() {
    let mut graph = Graph::new();
    graph.max_operations(3);
    let a = graph.shared("a", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || {
        (0..3).for_each(|_| a.dispatch(|_| async {}).unwrap());
        assert_eq!(a.dispatch(|_| async {}), Err(CallError::Full { stage: None, bound: 3 }));
        assert!(a.call(|_| async {}).detach().is_err());
    });
    assert_eq!(processor.live(), 0);
    settle(&processor, &world, || a.dispatch(|_| async {}).unwrap());
}

#[test]
fn ending_a_session_ends_children_first_and_waits_for_holds() {
    struct LogOnDrop(Log, &'static str);
    impl Drop for LogOnDrop {
        fn drop(&mut self) {
            self.0.borrow_mut().push(self.1);
        }
    }
    let mut graph = Graph::new();
    let (a, b) = (graph.shared("a", ()), graph.shared("b", ()));
    let (processor, world, log) = (single_processor(graph), Bench::default(), Log::default());
    let guard = Rc::new(RefCell::new(None));
    let (seen, slot) = (log.clone(), guard.clone());
    settle(&processor, &world, || {
        let session = Session::new();
        *slot.borrow_mut() = Some(session.guard());
        let parent = seen.clone();
        session
            .scope(|| {
                a.dispatch(move |_| async move {
                    let _say = LogOnDrop(parent.clone(), "parent");
                    let child = b.call(move |_| async move {
                        let _say = LogOnDrop(parent, "child");
                        std::future::pending::<()>().await;
                    });
                    let _ = child.await;
                })
            })
            .unwrap();
        a.dispatch(move |_| async move {
            yield_now().await;
            sleep(Duration::from_millis(1)).await;
            assert_eq!(session.operations(), 2);
            let end = session.end();
            seen.borrow_mut().push("ended");
            assert!(session.scope(|| a.dispatch(|_| async {})).is_err());
            end.await;
            seen.borrow_mut().push("all is back");
        })
        .unwrap();
    });
    world.now.set(10_000_000);
    settle(&processor, &world, || ());
    assert_eq!(*log.borrow(), ["child", "parent", "ended"]);
    settle(&processor, &world, || drop(guard.take()));
    assert_eq!(log.borrow().last(), Some(&"all is back"));
    assert_eq!(processor.live(), 0);
}

#[test]
fn time_passes_and_times_out() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let (processor, world, done) =
        (single_processor(graph), Bench::default(), Rc::new(Cell::new(0)));
    let out = done.clone();
    processor.enter(|| {
        let control = processor.control();
        a.dispatch(move |_| async move {
            sleep(Duration::from_millis(5)).await;
            let never = timeout(Duration::from_millis(7), std::future::pending::<()>());
            assert!(never.await.is_err());
            assert_eq!(timeout(Duration::from_secs(1), async { 3 }).await, Ok(3));
            out.set(1);
            control.drain();
        })
        .unwrap();
    });
    processor.run(&world, 0);
    assert_eq!((done.get(), world.now.get()), (1, 12_000_000));
}

#[test]
fn oneshots_wake_the_receiver_even_if_the_sender_is_dropped() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    let values = Rc::new(RefCell::new(Vec::new()));
    let (fired, wait_fired) = oneshot::local::<u8>();
    let (dropped, wait_dropped) = oneshot::local::<u8>();
    settle(&processor, &world, || {
        for event in [wait_fired, wait_dropped] {
            let values = values.clone();
            a.dispatch(move |_| async move {
                let value = event.await;
                values.borrow_mut().push(value);
            })
            .unwrap();
        }
    });
    assert!(values.borrow().is_empty());
    settle(&processor, &world, || {
        fired.send(9);
        drop(dropped);
    });
    values.borrow_mut().sort();
    assert_eq!(*values.borrow(), [None, Some(9)]);
}

#[test]
fn nothing_is_leaked_when_a_processor_goes() {
    let alive = Rc::new(());
    let mut graph = Graph::new();
    let (a, b) = (graph.shared("a", ()), graph.shared("b", ()));
    let (processor, world) = (single_processor(graph), Bench::default());
    let (one, two, three, four) = (alive.clone(), alive.clone(), alive.clone(), alive.clone());
    let mut unawaited = None;
    settle(&processor, &world, || {
        a.dispatch(move |_| async move {
            let done = b.call(move |_| async move { two });
            std::future::pending::<()>().await;
            drop((one, done));
        })
        .unwrap();
        unawaited = Some(b.call(move |_| async move { three }));
    });
    processor.enter(|| a.dispatch(move |_| async move { drop(four) }).unwrap());
    assert_eq!(Rc::strong_count(&alive), 5);
    drop(processor);
    assert_eq!(Rc::strong_count(&alive), 1, "closures, futures and results are dropped");
    drop(unawaited);
}

#[test]
#[should_panic(expected = "this thread runs no program")]
fn invoking_from_nowhere_says_so() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let _ = a.dispatch(|_| async {});
}

#[test]
#[should_panic(expected = "the graph that made it")]
fn handles_belong_to_their_graph() {
    let (mut graph, mut other) = (Graph::new(), Graph::new());
    graph.shared("a", ());
    let foreign_stage = other.shared("b", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || drop(foreign_stage.dispatch(|_| async {})));
}

#[test]
#[should_panic(expected = "\"kept\" was not declared")]
fn a_position_that_is_kept_is_declared_at() {
    let mut graph = Graph::new();
    let _place = graph.reserve("kept");
    graph.shared("a", ());
    graph.build(1);
}

#[test]
#[should_panic(expected = "in another graph")]
fn a_position_belongs_to_its_graph() {
    let (mut graph, mut other) = (Graph::new(), Graph::new());
    let place = graph.reserve("kept");
    other.declare(place).shared(());
}

/// A future that restarts its timer when something has arrived, and waits again without polling the timer.
#[test]
fn a_timer_that_is_reset_wakes_its_operation() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    let woken_at = Rc::new(Cell::new(0));
    let (sender, mut receiver) = oneshot::local();
    processor.enter(|| {
        let fired_at = woken_at.clone();
        let waits = stage.dispatch(move |_| async move {
            let mut timer = sleep(Duration::from_millis(10));
            let mut has_arrived = false;
            std::future::poll_fn(|context| {
                if !has_arrived && Pin::new(&mut receiver).poll(context).is_ready() {
                    has_arrived = true;
                    timer.reset(Duration::from_millis(20));
                    return Poll::Pending;
                }
                Pin::new(&mut timer).poll(context)
            })
            .await;
            fired_at.set(phalanx_core::now().as_millis());
        });
        waits.unwrap();
    });
    let mut sender = Some(sender);
    for at in 0..40u64 {
        world.now.set(at * 1_000_000);
        if at == 5 {
            processor.enter(|| sender.take().into_iter().for_each(|sender| sender.send(())));
        }
        processor.turn(&world);
    }
    assert!((25..=26).contains(&woken_at.get()), "{}", woken_at.get());
    assert_eq!((processor.live(), processor.timers()), (0, 0));
}
