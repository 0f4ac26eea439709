//! Rejected invocations whose destructors panic: this ends neither the turn nor the caller.

use std::task::{Poll, Waker};

use phalanx_core::{CallError, Cohort, Graph, Session};

use crate::support::{
    Bomb, HostileWorld, OnDrop, build, poll_once, settle, silence_expected_panics,
};

#[test]
fn a_refusal_by_the_bound_of_operations_reaches_its_caller() {
    silence_expected_panics();
    let mut graph = Graph::new();
    graph.max_operations(1);
    let stage = graph.shared("stage", ());
    let [processor] = build(graph);
    processor.enter(|| {
        stage.dispatch(|_| async {}).unwrap();
        let bomb = Bomb;
        let result = stage.dispatch(move |_| async move { drop(bomb) });
        assert!(matches!(result, Err(CallError::Full { stage: None, .. })), "{result:?}");
    });
}

#[test]
fn a_refusal_by_a_stages_capacity_reaches_its_caller() {
    silence_expected_panics();
    let mut graph = Graph::new();
    let stage = graph.stage("stage").capacity(1).shared(());
    let [one, two] = build(graph);
    for (processor, target) in [(&one, 0), (&two, 0)] {
        processor.enter(|| {
            stage.call_on(target, |_| async {}).detach().unwrap();
            let bomb = Bomb;
            let result = stage.call_on(target, move |_| async move { drop(bomb) }).detach();
            assert!(matches!(result, Err(CallError::Full { .. })), "{result:?}");
        });
    }
}

/// Operations and items that other processors send are refused by a processor that is full.
#[test]
fn remote_operations_are_rejected_within_the_turn() {
    silence_expected_panics();
    let mut graph = Graph::new();
    graph.max_operations(4);
    let full = graph.shared("full", ());
    let stage = graph.shared("stage", ());
    let items = graph.stage("items").cohort(|_| (), |(), _: &mut Cohort<Bomb, ()>| ());
    let ([one, two], world) = (build(graph), HostileWorld::default());
    one.enter(|| {
        for _ in 0..4 {
            full.dispatch(|_| std::future::pending()).unwrap();
        }
    });
    one.turn(&world);
    let (mut call, mut item) = two.enter(|| {
        let bomb = Bomb;
        (stage.call_on(0, move |_| async move { drop(bomb) }), items.call_on(0, Bomb))
    });
    let both = [one, two];
    settle(&both, &world);
    both[1].enter(|| {
        let operation = poll_once(&mut call, Waker::noop());
        assert!(matches!(operation, Poll::Ready(Err(CallError::Full { .. }))), "{operation:?}");
        let item = poll_once(&mut item, Waker::noop());
        assert!(matches!(item, Poll::Ready(Err(CallError::Full { .. }))), "{item:?}");
    });
}

/// An invocation arrives after its session has ended. Its destructor panics, or takes the last
/// handle of the session that it finds itself in.
#[test]
fn late_arrivals_are_rejected_within_the_turn() {
    silence_expected_panics();
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let ([one, two], world) = (build(graph), HostileWorld::default());
    two.enter(|| {
        let session = Session::new();
        let guard = OnDrop(|| drop(Session::current()));
        session.scope(|| {
            let bomb = Bomb;
            drop(stage.call_on(0, move |_| async move { drop(bomb) }));
            drop(stage.call_on(0, move |_| async move { drop(guard) }));
        });
        drop(session.end());
    });
    settle(&[one, two], &world);
}

/// The same for a deadline that has passed, and a processor that is full.
#[test]
fn a_destructor_in_a_refusal_may_use_the_session() {
    silence_expected_panics();
    for full in [false, true] {
        let mut graph = Graph::new();
        graph.max_operations(2);
        let stage = graph.shared("stage", ());
        let ([one, two], world) = (build(graph), HostileWorld::default());
        if full {
            one.enter(|| (0..2).for_each(|_| stage.dispatch(|_| std::future::pending()).unwrap()));
            one.turn(&world);
        }
        two.enter(|| {
            let session = Session::new();
            if !full {
                session.set_deadline(std::time::Duration::from_nanos(5));
            }
            let (guard, bomb) = (OnDrop(|| drop(Session::current())), Bomb);
            session.scope(|| {
                drop(stage.call_on(0, move |_| async move { drop((guard, bomb)) }));
            });
            two.turn(&world);
        });
        world.now.set(10);
        settle(&[one, two], &world);
    }
}
