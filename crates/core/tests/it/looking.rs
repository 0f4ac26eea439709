//! Observability: suspended operations, waiting times, invocations between stages, and traces of cohorts. Two
//! processors are turned by hand, so every figure is exact.

#![cfg(not(uncounted))]

use crate::common::{Bench, settle, single_processor};
use phalanx_core::{Crossings, Graph, Processor, Session, SharedStage, sleep};
use std::time::Duration;

/// Two processors with the stages "front" and "back".
fn pair() -> (Vec<Processor>, SharedStage<()>, SharedStage<()>) {
    let mut graph = Graph::new();
    let (front, back) = (graph.shared("front", ()), graph.shared("back", ()));
    let processors =
        graph.build(2).into_iter().map(|builder| builder.build(Box::new(|| ()))).collect();
    (processors, front, back)
}

fn turns(processors: &[Processor], world: &Bench) {
    for _ in 0..4 {
        for processor in processors {
            processor.turn(world);
        }
    }
}

#[test]
fn suspended_operations_are_counted() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    let session = processor.enter(Session::new);
    let suspended =
        |processor: &Processor| processor.control().processor(0).stages[0].suspended_now();
    settle(&processor, &world, || {
        for _ in 0..3 {
            stage.dispatch(|_| sleep(Duration::from_millis(5))).unwrap();
        }
        for _ in 0..2 {
            session.scope(|| stage.dispatch(|_| sleep(Duration::from_secs(5)))).unwrap();
        }
    });
    assert_eq!(suspended(&processor), 5);
    world.now.set(20_000_000);
    settle(&processor, &world, || ());
    assert_eq!(suspended(&processor), 2, "those that were resumed are not");
    settle(&processor, &world, || drop(session.end()));
    assert_eq!(suspended(&processor), 0, "nor are those that were ended");
}

#[test]
fn waits_have_their_buckets() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    processor.turn(&world);
    processor.enter(|| {
        for _ in 0..10 {
            stage.dispatch(|_| async {}).unwrap();
        }
    });
    world.now.set(5_000);
    processor.turn(&world);
    let view = &processor.control().processor(0).stages[0];
    assert_eq!(view.waits.count(), 10);
    let p99 = view.waits.percentile_ns(99.0);
    assert!((4096.0..=8192.0).contains(&p99), "{p99}");
    assert_eq!(view.runs.count(), 10);
}

#[test]
fn an_arc_from_another_processor_keeps_its_name() {
    let (processors, front, back) = pair();
    let world = Bench::default();
    processors[0].enter(|| {
        front
            .dispatch(move |_| async move {
                let calls: Vec<_> =
                    (0..5).map(|n| back.call_on(1, move |_| async move { n })).collect();
                phalanx_core::join(calls).await;
            })
            .unwrap();
    });
    turns(&processors, &world);
    let view = processors[1].control().processor(1);
    let expected = Crossings { processor: 0, from: Some(0), to: 1, count: 5 };
    assert_eq!(view.crossings, [expected]);
    assert!(view.arcs.iter().flatten().all(|count| *count == 0), "{:?}", view.arcs);
    let answered = processors[0].control().processor(0).crossings;
    let expected = Crossings { processor: 1, from: Some(1), to: 0, count: 1 };
    assert_eq!(answered, [expected], "a join wakes its parent once");
}

#[test]
fn a_trace_contains_every_cohort_and_its_invoker() {
    let (processors, front, back) = pair();
    let world = Bench::default();
    let control = processors[0].control();
    let work = || {
        processors[0].enter(|| {
            for _ in 0..7 {
                front
                    .dispatch(move |_| async move {
                        back.call(|_| async {}).await.unwrap();
                        back.call_on(1, |_| async {}).await.unwrap();
                    })
                    .unwrap();
            }
        });
        turns(&processors, &world);
    };
    work();
    let trace = control.trace(100).unwrap();
    assert!(control.trace(100).is_none(), "one at a time");
    work();
    let here = trace.take(0);
    assert_eq!((here[0].stage, here[0].size, here[0].queued), (0, 7, 7));
    assert_eq!((here[0].invoked, here[0].crossed), (1 << 1, None), "it invoked the back");
    assert_eq!((here[1].stage, here[1].size, here[1].invoked), (1, 7, 1), "which woke the front");
    let there = trace.take(1);
    assert_eq!(there.len(), 1);
    assert_eq!((there[0].stage, there[0].size, there[0].crossed), (1, 7, Some((0, 0))));
    trace.stop();
    work();
    assert!(trace.take(0).is_empty());
}

#[test]
fn a_trace_is_bounded_and_says_so() {
    let (processors, front, _) = pair();
    let world = Bench::default();
    let trace = processors[0].control().trace(3).unwrap();
    for _ in 0..10 {
        processors[0].enter(|| front.dispatch(|_| async {}).unwrap());
        processors[0].turn(&world);
    }
    assert_eq!((trace.take(0).len(), trace.dropped(0)), (3, 7));
    processors[0].enter(|| front.dispatch(|_| async {}).unwrap());
    processors[0].turn(&world);
    assert_eq!((trace.take(0).len(), trace.dropped(0)), (0, 8), "taking makes no room");
    drop(trace);
    assert!(processors[0].control().trace(3).unwrap().take(0).is_empty());
}
