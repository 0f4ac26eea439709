//! Processors that end, or never begin, while others have sent them messages.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use crate::common::{Bench, Several};
use phalanx_core::{
    CallError, Graph, MoveError, Processor, ProcessorBuilder, Session, SessionGuard, SharedStage,
};

/// The first of two processors is built.
struct Half {
    first: Processor,
    second: ProcessorBuilder,
    stage: SharedStage<()>,
    world: Bench,
}

fn half() -> Half {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let mut builders = graph.build(2);
    let second = builders.pop().unwrap();
    let first = builders.remove(0).build(Box::new(|| ()));
    Half { first, second, stage, world: Bench::default() }
}

type Results = Rc<RefCell<Vec<Result<(), CallError>>>>;

/// An operation of `processor` that calls the other processor, with a capture that counts it.
fn call_the_other(processor: &Processor, stage: SharedStage<()>, sent: &Arc<()>) -> Results {
    let results = Results::default();
    let (told, sent) = (results.clone(), sent.clone());
    processor.enter(|| {
        let calls = stage.dispatch(move |_| async move {
            let result = stage.call_on(1, move |_| async move { drop(sent) }).await;
            told.borrow_mut().push(result);
        });
        calls.unwrap();
    });
    results
}

fn turns(processor: &Processor, world: &Bench) {
    (0..8).for_each(|_| _ = processor.turn(world));
}

#[test]
fn a_call_to_a_processor_that_is_never_built_is_cancelled() {
    for sent_before in [true, false] {
        let Half { first, second, stage, world } = half();
        let (mut second, sent) = (Some(second).filter(|_| sent_before), Arc::new(()));
        let results = call_the_other(&first, stage, &sent);
        turns(&first, &world);
        if second.take().is_some() {
            assert!(results.borrow().is_empty(), "it may still begin");
        }
        turns(&first, &world);
        assert_eq!(*results.borrow(), [Err(CallError::Cancelled)]);
        assert_eq!((first.live(), Arc::strong_count(&sent)), (0, 1));
        assert!(first.leaks().is_empty());
    }
}

#[test]
fn more_calls_than_a_ring_holds_are_cancelled() {
    let Half { first, second, stage, world } = half();
    let sent = Arc::new(());
    let results: Vec<_> = (0..1500).map(|_| call_the_other(&first, stage, &sent)).collect();
    (0..50).for_each(|_| _ = first.turn(&world));
    drop(second);
    (0..50).for_each(|_| _ = first.turn(&world));
    assert!(results.iter().all(|result| *result.borrow() == [Err(CallError::Cancelled)]));
    assert_eq!((first.live(), Arc::strong_count(&sent)), (0, 1));
}

#[test]
fn a_program_with_a_call_to_a_processor_that_is_never_built_ends() {
    for ends in [true, false] {
        let Half { first, second, stage, world } = half();
        let _results = call_the_other(&first, stage, &Arc::new(()));
        turns(&first, &world);
        drop(second);
        if ends {
            first.control().end()
        } else {
            first.control().drain()
        }
        first.run(&world, 0);
        assert_eq!(first.live(), 0);
    }
}

/// The ring of replies holds 1024.
#[test]
fn all_operations_of_a_processor_that_ends_are_cancelled() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let mut several = Several::new(graph, 2);
    let cancelled = Rc::new(Cell::new(0));
    for _ in 0..3 {
        several.processors[0].enter(|| {
            for _ in 0..500 {
                let cancelled = cancelled.clone();
                let calls = stage.dispatch(move |_| async move {
                    let result = stage.call_on(1, |_| std::future::pending::<()>()).await;
                    assert_eq!(result, Err(CallError::Cancelled));
                    cancelled.set(cancelled.get() + 1);
                });
                calls.unwrap();
            }
        });
        several.settle(3);
    }
    assert_eq!(several.live(), [3000, 1500]);
    drop(several.processors.pop());
    several.settle(3);
    assert_eq!((cancelled.get(), several.live()), (1500, vec![0]));
}

#[test]
fn the_end_of_a_session_does_not_wait_for_a_processor_that_has_ended() {
    thread_local! {
        static HELD: RefCell<Option<SessionGuard>> = const { RefCell::new(None) };
    }
    // The other processor ends before or after it has received the command.
    for before in [false, true] {
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        let mut several = Several::new(graph, 2);
        let session = several.processors[0].enter(Session::new);
        several.processors[0].enter(|| {
            let guards = || {
                let guards = stage.call_on(1, |_| async {
                    HELD.set(Session::current().map(|session| session.guard()));
                });
                guards.detach()
            };
            session.scope(guards).unwrap();
        });
        several.settle(3);
        if before {
            several.processors.truncate(1);
        }
        let over = Rc::new(Cell::new(false));
        several.processors[0].enter(|| {
            let over = over.clone();
            let end = stage.dispatch(move |_| async move {
                session.end().await;
                over.set(true);
            });
            end.unwrap();
        });
        several.settle(3);
        assert_eq!(over.get(), before, "the guard exists");
        several.processors.truncate(1);
        several.settle(3);
        assert!(over.get() && several.processors[0].leaks().is_empty());
        HELD.take();
    }
}

#[test]
fn a_partition_does_not_move_to_a_processor_that_has_ended() {
    // The number of turns before the processor ends. With more turns, the state is already in transit.
    for turns in 0..4 {
        let mut graph = Graph::new();
        let main = graph.shared("main", ());
        let table = graph.stage("table").partitions(1).partitioned(|_| 7);
        let mut several = Several::new(graph, 2);
        let results = Rc::new(RefCell::new(Vec::new()));
        let told = results.clone();
        several.processors[0].enter(|| {
            let moves = main.dispatch(move |_| async move {
                let moved = table.move_partition(0, 1).await;
                let found = table.call_partition(0, |part| async move { part.with(|n| *n) });
                let found = found.await;
                told.borrow_mut().push((moved, found));
            });
            moves.unwrap();
        });
        (0..turns).for_each(|_| _ = several.turn(0));
        several.processors.truncate(1);
        several.settle(5);
        let kept = (Err(MoveError::Call(CallError::Cancelled)), Ok(7));
        let lost = (Ok(()), Err(CallError::Cancelled));
        let results = results.borrow();
        assert!(*results == [kept] || turns > 0 && *results == [lost], "{turns}: {results:?}");
        assert_eq!(several.live(), [0]);
    }
}
