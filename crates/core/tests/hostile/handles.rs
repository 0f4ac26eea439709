//! Handles that are forgotten, moved to another processor, or kept beyond their processor.

use std::task::{Poll, Waker};

use phalanx_core::{CallError, Graph, Session};

use crate::support::{Count, HostileWorld, build, poll_once, settle};

#[test]
fn forgotten_calls_leave_their_results_with_the_processor() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let ([processor], world, alive) = (build(graph), HostileWorld::default(), Count::default());
    processor.enter(|| {
        for _ in 0..3 {
            let token = alive.token();
            std::mem::forget(stage.call(move |_| async move { token }));
        }
    });
    settle(std::slice::from_ref(&processor), &world);
    assert_eq!(alive.alive(), 3);
    drop(processor);
    assert_eq!(alive.alive(), 0);
}

#[test]
fn a_call_on_another_processor_or_beyond_its_own_reaches_nothing() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let [one, two] = build(graph);
    let [mut elsewhere, mut late] =
        one.enter(|| [1, 2].map(|n| stage.call(move |_| async move { n })));
    settle(std::slice::from_ref(&one), &HostileWorld::default());
    let polled = two.enter(|| poll_once(&mut elsewhere, Waker::noop()));
    assert_eq!(polled, Poll::Ready(Err(CallError::WrongProcessor)));
    drop(one);
    let polled = two.enter(|| poll_once(&mut late, Waker::noop()));
    assert_eq!(polled, Poll::Ready(Err(CallError::Cancelled)));
}

#[test]
fn a_forgotten_hold_keeps_a_session_from_its_end_and_no_more() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let ([processor], world) = (build(graph), HostileWorld::default());
    processor.enter(|| {
        let session = Session::new();
        std::mem::forget(session.guard());
        let call = session.scope(|| stage.call(|_| std::future::pending::<()>()));
        processor.turn(&world);
        let mut end = session.end();
        assert!(poll_once(&mut end, Waker::noop()).is_pending());
        assert_eq!(session.operations(), 0);
        drop(call);
        std::mem::forget(session);
    });
    drop(processor);
}
