//! Guarantees of `prefetch(..).await`: other operations of the cohort run first, then the operation continues
//! in the same cohort, and nothing else about it changes.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::common::{Bench, settle, single_processor};
use phalanx_core::{CallError, Graph, MAX_INTERLEAVED, Session, StageView, oneshot, prefetch};

fn stage(processor: &phalanx_core::Processor, index: usize) -> StageView {
    processor.control().profile().processors[0].stages[index].clone()
}

/// Runs `count` operations that each record their start, await `fetches` prefetches and record their end;
/// returns the record.
fn run(max_cohort: usize, count: usize, fetches: usize) -> (Vec<(usize, &'static str)>, StageView) {
    let mut graph = Graph::new();
    let a = graph.stage("a").max_cohort(max_cohort).shared(());
    let (processor, world) = (single_processor(graph), Bench::default());
    let events = Rc::new(RefCell::new(Vec::new()));
    settle(&processor, &world, || {
        for n in 0..count {
            let events = events.clone();
            a.dispatch(move |_| async move {
                events.borrow_mut().push((n, "start"));
                for _ in 0..fetches {
                    prefetch(&n).await;
                }
                events.borrow_mut().push((n, "end"));
            })
            .unwrap();
        }
    });
    assert_eq!(processor.live(), 0);
    (events.take(), stage(&processor, 0))
}

#[test]
fn the_others_start_first_and_those_that_wait_go_on_in_their_order() {
    let (events, view) = run(64, 4, 1);
    let all = |event: &'static str| (0..4).map(move |n| (n, event));
    // The last operation finds others that wait, so it waits, too.
    assert_eq!(events, all("start").chain(all("end")).collect::<Vec<_>>());
    // It is a single cohort, and a prefetch is not counted as a suspension.
    assert_eq!((view.cohorts, view.cohort_max), (1, 4));
    assert_eq!((view.started.count, view.resumed.count, view.completed.count), (4, 0, 4));
    assert_eq!(view.suspended, 0);
}

#[test]
fn every_round_is_in_order() {
    let (events, view) = run(64, 10, 5);
    assert_eq!(events.iter().filter(|(_, event)| *event == "end").count(), 10);
    assert_eq!((view.cohorts, view.completed.count), (1, 10));
}

#[test]
fn a_single_operation_does_not_suspend_for_a_prefetch() {
    let (events, view) = run(64, 1, 3);
    assert_eq!(events, [(0, "start"), (0, "end")]);
    assert_eq!((view.cohorts, view.suspended), (1, 0));
}

#[test]
fn no_more_than_the_bound_wait_at_a_time() {
    let (events, view) = run(256, 150, 2);
    let mut waiting = 0i64;
    let mut max = 0;
    for (_, event) in &events {
        waiting += if *event == "start" { 1 } else { -1 };
        max = max.max(waiting);
    }
    assert_eq!(max as usize, MAX_INTERLEAVED);
    assert_eq!((waiting, view.cohorts, view.completed.count), (0, 1, 150));
}

#[test]
fn a_cohort_has_no_more_operations_than_it_may() {
    let (events, view) = run(8, 20, 2);
    // The operations of one cohort end before those of the next cohort start.
    for cohort in events.chunks(16) {
        let starts = cohort.iter().take_while(|(_, event)| *event == "start").count();
        assert_eq!(starts, cohort.len() / 2);
    }
    assert_eq!((view.cohorts, view.cohort_max, view.completed.count), (3, 8, 20));
}

/// Two operations that prefetch until a flag stops them; the clock moves by `step` each time.
fn without_end(step: u64) {
    let mut graph = Graph::new();
    let (a, b) = (graph.shared("a", ()), graph.shared("b", ()));
    let (processor, world) = (single_processor(graph), Rc::new(Bench::default()));
    let stop = Rc::new(Cell::new(false));
    settle(&processor, &world, || {
        for _ in 0..2 {
            let (stop, world) = (stop.clone(), world.clone());
            a.dispatch(move |_| async move {
                while !stop.get() {
                    prefetch(&stop).await;
                    world.now.set(world.now.get() + step);
                }
            })
            .unwrap();
        }
        let stop = stop.clone();
        b.dispatch(move |_| async move { stop.set(true) }).unwrap();
    });
    assert_eq!(processor.live(), 0);
    let view = stage(&processor, 0);
    assert!(view.cohorts > 1 && view.suspended == view.resumed.count, "{view:?}");
    assert_eq!((view.started.count, view.completed.count), (2, 2));
}

#[test]
fn a_cohort_ends_when_its_time_is_over() {
    without_end(1_000);
}

#[test]
fn a_cohort_ends_though_the_clock_stands_still() {
    without_end(0);
}

#[test]
fn a_panic_after_a_prefetch_is_of_one_operation() {
    let mut graph = Graph::new();
    let (front, a) = (graph.shared("front", ()), graph.shared("a", ()));
    let (processor, world) = (single_processor(graph), Bench::default());
    let sum = Rc::new(Cell::new(0));
    let out = sum.clone();
    settle(&processor, &world, || {
        front
            .dispatch(move |_| async move {
                let call = |n: usize| {
                    a.call(move |_| async move {
                        prefetch(&n).await;
                        assert!(!n.is_multiple_of(3), "a third fail");
                        n
                    })
                };
                for result in phalanx_core::join((0..100).map(call).collect::<Vec<_>>()).await {
                    match result {
                        Ok(n) => out.set(out.get() + n),
                        Err(CallError::Panicked { stage, .. }) => assert_eq!(stage, "a"),
                        Err(other) => panic!("{other}"),
                    }
                }
            })
            .unwrap();
    });
    assert_eq!(sum.get(), (0..100).filter(|n| n % 3 != 0).sum());
    let view = stage(&processor, 1);
    assert_eq!((view.started.count, view.completed.count, view.panicked), (100, 66, 34));
    assert_eq!((view.cohorts, processor.live()), (1, 0));
}

#[test]
fn a_session_that_ends_takes_those_that_wait_with_it() {
    let mut graph = Graph::new();
    let a = graph.stage("a").shared(());
    let (processor, world) = (single_processor(graph), Bench::default());
    let (dropped, continued) = (Rc::new(()), Rc::new(Cell::new(0)));
    settle(&processor, &world, || {
        let session = Session::new();
        for _ in 0..3 {
            let (kept, continued) = (dropped.clone(), continued.clone());
            session
                .scope(|| {
                    a.dispatch(move |_| async move {
                        prefetch(&kept).await;
                        continued.set(continued.get() + 1);
                    })
                })
                .unwrap();
        }
        a.dispatch(move |_| async move {
            session.end().await;
            assert_eq!(session.operations(), 0);
        })
        .unwrap();
    });
    assert_eq!((continued.get(), Rc::strong_count(&dropped), processor.live()), (0, 1, 0));
    let view = stage(&processor, 0);
    assert_eq!((view.cancelled, view.completed.count), (3, 1));
}

#[test]
fn a_wake_up_while_it_waits_runs_it_once() {
    let mut graph = Graph::new();
    let a = graph.stage("a").shared(());
    let (processor, world) = (single_processor(graph), Bench::default());
    let completed = Rc::new(Cell::new(0));
    let out = completed.clone();
    settle(&processor, &world, || {
        let (sender, mut value) = oneshot::local::<u32>();
        a.dispatch(move |_| async move {
            // The receiver has this operation's waker before the prefetch suspends it.
            let mut early = None;
            std::future::poll_fn(|context| {
                if let Poll::Ready(value) = Pin::new(&mut value).poll(context) {
                    early = Some(value);
                }
                Poll::Ready(())
            })
            .await;
            assert_eq!(early, None);
            prefetch(&out).await;
            assert_eq!(value.await, Some(7));
            out.set(out.get() + 1);
        })
        .unwrap();
        a.dispatch(move |_| async move { sender.send(7) }).unwrap();
    });
    assert_eq!((completed.get(), processor.live()), (1, 0));
    assert_eq!(stage(&processor, 0).completed.count, 2);
}

#[test]
fn under_a_foreign_waker_or_outside_a_prefetch_does_not_suspend() {
    let ready = |data: &u32| {
        let context = &mut Context::from_waker(Waker::noop());
        pin!(prefetch(data)).poll(context).is_ready()
    };
    assert!(ready(&1), "outside");
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    let seen = Rc::new(Cell::new(0));
    settle(&processor, &world, || {
        for n in 0..5 {
            let seen = seen.clone();
            a.dispatch(move |_| async move { seen.set(seen.get() + u32::from(ready(&n))) })
                .unwrap();
        }
    });
    assert_eq!(seen.get(), 5);
}

#[test]
fn two_at_once_are_one_suspension() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    let done = Rc::new(Cell::new(0));
    settle(&processor, &world, || {
        for n in 0..5u32 {
            let done = done.clone();
            a.dispatch(move |_| async move {
                let (mut one, mut two) = (prefetch(&n), prefetch(&done));
                let mut polls = 0;
                std::future::poll_fn(|context| {
                    polls += 1;
                    let first = Pin::new(&mut one).poll(context);
                    let second = Pin::new(&mut two).poll(context);
                    if first.is_ready() && second.is_ready() {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                })
                .await;
                assert_eq!(polls, 2);
                done.set(done.get() + 1);
            })
            .unwrap();
        }
    });
    assert_eq!((done.get(), stage(&processor, 0).panicked), (5, 0));
}

#[test]
fn remote_operations_are_interleaved_too() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let mut builders = graph.build(2);
    let [here, there] =
        [builders.remove(0), builders.remove(0)].map(|builder| builder.build(Box::new(|| ())));
    let world = Bench::default();
    let log = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    here.enter(|| {
        for n in 0..3 {
            let log = log.clone();
            let call = a.call_on(1, move |_| async move {
                log.lock().unwrap().push((n, "start"));
                prefetch(&n).await;
                log.lock().unwrap().push((n, "end"));
            });
            call.detach().unwrap();
        }
    });
    for _ in 0..4 {
        here.turn(&world);
        there.turn(&world);
    }
    let log = log.lock().unwrap();
    let starts = log.iter().take_while(|(_, what)| *what == "start").count();
    assert_eq!((starts, log.len()), (3, 6), "{log:?}");
}
