//! Cache affinity: operations of exclusive stages with large state are sent to it, unless there are many.

use std::cell::Cell;
use std::rc::Rc;

use crate::common::Program;
use phalanx_core::{Graph, join, oneshot};

#[test]
fn few_operations_go_to_the_state_and_many_have_it_come() {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    // As many lines as 16 operations.
    let index = graph.stage("index").cache_affinity(16 * 8 * 64).exclusive(0usize);
    let program = Program::new(graph, 2);
    let ran = |at: usize| {
        program.processors[0].control().profile().processors[at].stages[1].completed.count
    };
    let invoke = |at: usize, many: usize| {
        let sum = Rc::new(Cell::new(0));
        program.processors[at].enter(|| {
            let sum = sum.clone();
            let caller = main.dispatch(move |_| async move {
                let calls = (0..many).map(|_| {
                    index.call(|state| async move {
                        state.with(|n| *n += 1);
                        1
                    })
                });
                let results = join(calls.collect::<Vec<_>>()).await;
                sum.set(results.into_iter().map(Result::unwrap).sum());
            });
            caller.unwrap();
        });
        program.settle(3);
        assert_eq!(sum.get(), many);
        (ran(0), ran(1))
    };
    assert_eq!(invoke(0, 2), (2, 0), "the first runs where it is");
    assert_eq!(invoke(1, 15), (17, 0), "few go to the state");
    assert_eq!(invoke(1, 16), (17, 16), "for many it comes");
    assert_eq!(invoke(0, 3), (17, 19), "and stays there");
    assert_eq!(program.live(), [0, 0]);
}

#[test]
fn a_program_that_ends_drops_envelopes_in_transit() {
    let alive = Rc::new(());
    let sent = std::sync::Arc::new(());
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let index = graph.stage("index").cache_affinity(1 << 20).exclusive(());
    let program = Program::new(graph, 2);
    program.processors[0].enter(|| index.dispatch(|_| async {}).unwrap());
    program.settle(3);
    program.processors[1].enter(|| {
        let (alive, sent) = (alive.clone(), sent.clone());
        let caller = main.dispatch(move |_| async move {
            let _ = index.call(move |_| async move { drop(sent) }).await;
            drop(alive);
        });
        caller.unwrap();
    });
    for _ in 0..3 {
        program.turn(1);
    }
    assert_eq!(std::sync::Arc::strong_count(&sent), 2, "the message is in the mailbox");
    drop(program);
    assert_eq!((Rc::strong_count(&alive), std::sync::Arc::strong_count(&sent)), (1, 1));
}

/// Operations that were admitted on one processor are not rejected by the full queue of the processor to which they are
/// sent.
#[test]
fn forwarded_operations_wait_for_the_queue_of_their_home() {
    let mut graph = Graph::new();
    let index = graph.stage("index").capacity(2).cache_affinity(1 << 20).exclusive(0);
    let program = Program::new(graph, 2);
    let [home, other] = &program.processors[..] else { unreachable!() };
    // Two operations fill the queue of the home again.
    let (senders, events): (Vec<_>, Vec<_>) = (0..2).map(|_| oneshot::shared()).unzip();
    home.enter(|| {
        for event in events {
            let waits = index.dispatch(move |state| async move {
                event.await.unwrap();
                state.with(|n| *n += 1);
            });
            waits.unwrap();
        }
    });
    program.settle(3);
    home.enter(|| senders.into_iter().for_each(|sender| sender.send(())));
    other.enter(|| {
        for _ in 0..2 {
            index.dispatch(|state| async move { state.with(|n| *n += 1) }).unwrap();
        }
    });
    program.turn(1);
    program.settle(3);
    let control = home.control();
    let completed = |at: usize| control.profile().processors[at].stages[0].completed.count;
    assert_eq!((completed(0), completed(1), program.live()), (4, 0, vec![0, 0]));
}
