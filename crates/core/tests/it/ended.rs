//! Processors that end, or never begin, while others have sent them messages.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use crate::common::{Bench, Program};
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
    let (log, sent) = (results.clone(), sent.clone());
    processor.enter(|| {
        let calls = stage.dispatch(move |_| async move {
            let result = stage.call_on(1, move |_| async move { drop(sent) }).await;
            log.borrow_mut().push(result);
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
    for is_sent_first in [true, false] {
        let Half { first, second, stage, world } = half();
        let (mut second, sent) = (Some(second).filter(|_| is_sent_first), Arc::new(()));
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
    let mut program = Program::new(graph, 2);
    let cancelled = Rc::new(Cell::new(0));
    for _ in 0..3 {
        program.processors[0].enter(|| {
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
        program.settle(3);
    }
    assert_eq!(program.live(), [3000, 1500]);
    drop(program.processors.pop());
    program.settle(3);
    assert_eq!((cancelled.get(), program.live()), (1500, vec![0]));
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
        let mut program = Program::new(graph, 2);
        let session = program.processors[0].enter(Session::new);
        program.processors[0].enter(|| {
            let guards = || {
                let guards = stage.call_on(1, |_| async {
                    HELD.set(Session::current().map(|session| session.guard()));
                });
                guards.detach()
            };
            session.scope(guards).unwrap();
        });
        program.settle(3);
        if before {
            program.processors.truncate(1);
        }
        let is_done = Rc::new(Cell::new(false));
        program.processors[0].enter(|| {
            let is_done = is_done.clone();
            let end = stage.dispatch(move |_| async move {
                session.end().await;
                is_done.set(true);
            });
            end.unwrap();
        });
        program.settle(3);
        assert_eq!(is_done.get(), before, "the guard exists");
        program.processors.truncate(1);
        program.settle(3);
        assert!(is_done.get() && program.processors[0].leaks().is_empty());
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
        let mut program = Program::new(graph, 2);
        let results = Rc::new(RefCell::new(Vec::new()));
        let log = results.clone();
        program.processors[0].enter(|| {
            let moves = main.dispatch(move |_| async move {
                let moved = table.move_partition(0, 1).await;
                let call = table.call_partition(0, |part| async move { part.with(|n| *n) });
                let call = call.await;
                log.borrow_mut().push((moved, call));
            });
            moves.unwrap();
        });
        (0..turns).for_each(|_| _ = program.turn(0));
        program.processors.truncate(1);
        program.settle(5);
        let expected = (Err(MoveError::Call(CallError::Cancelled)), Ok(7));
        let lost = (Ok(()), Err(CallError::Cancelled));
        let results = results.borrow();
        assert!(*results == [expected] || turns > 0 && *results == [lost], "{turns}: {results:?}");
        assert_eq!(program.live(), [0]);
    }
}
