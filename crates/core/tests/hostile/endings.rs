//! The end of a processor and of a program, with destructors that panic.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use phalanx_core::{Control, Graph, Partition, Session, join, oneshot, sleep};

use crate::support::{
    Bomb, Count, HostileWorld, OnDrop, build, poll_once, settle, silence_expected_panics,
};

#[test]
fn states_whose_destructors_panic_are_all_dropped() {
    silence_expected_panics();
    let mut graph = Graph::new();
    graph.shared("shared", Bomb);
    graph.exclusive("exclusive", Bomb);
    graph.partitioned("partitioned", |_| Bomb);
    graph.stage("items").cohort(|_| Bomb, |_, _: &mut phalanx_core::Cohort<(), ()>| ());
    let processors: [_; 2] = build(graph);
    drop(processors);
}

/// A command that moves a partition is in transit when the program ends.
#[test]
fn a_command_that_never_runs_is_dropped() {
    silence_expected_panics();
    for turns in 0..4 {
        let mut graph = Graph::new();
        let stage = graph.partitioned("stage", |_| Bomb);
        let shared_stage = graph.shared("plain", ());
        let ([one, two], world) = (build(graph), HostileWorld::default());
        one.enter(|| {
            let dispatched = shared_stage.dispatch(move |_| async move {
                let _ = stage.move_partition(0, 1).await;
            });
            dispatched.unwrap();
        });
        (0..turns).for_each(|_| _ = one.turn(&world));
        let control = one.control();
        drop(two);
        (0..3).for_each(|_| _ = one.turn(&world));
        drop(one);
        drop(control);
    }
}

/// A program ends within an operation of another program, with a request in transit.
#[test]
fn a_program_that_ends_inside_another_tells_it_nothing() {
    silence_expected_panics();
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let ([one, two], world) = (build(graph), HostileWorld::default());
    one.enter(|| {
        let session = Session::new();
        session.scope(|| drop(stage.call_on(1, |_| std::future::pending::<()>())));
        one.turn(&world);
        two.turn(&world);
        drop(two);
        // Requests that the other processor end its part; the request is not received.
        drop(session.end());
        one.turn(&world);
    });
    let last: Control = one.control();
    drop(one);

    let mut graph = Graph::new();
    let outer = graph.shared("outer", ());
    let (processors, world): ([_; 2], _) = (build(graph), HostileWorld::default());
    processors[0].enter(|| outer.dispatch(move |_| async move { drop(last) })).unwrap();
    settle(&processors, &world);
    assert!(processors.iter().all(|processor| processor.leaks().is_empty()));
}

/// Panics when its last reference is dropped.
struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic!("hostile waker");
    }
}

impl Drop for PanickingWaker {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("hostile waker's destructor");
        }
    }
}

fn panicking_waker() -> Waker {
    Waker::from(Arc::new(PanickingWaker))
}

/// Every structure that keeps a waker is dropped with one whose destructor panics.
#[test]
fn wakers_whose_destructors_panic_are_all_dropped() {
    silence_expected_panics();
    let mut graph = Graph::new();
    let stage = graph.stage("stage").capacity(1).shared(());
    let ([processor], world) = (build(graph), HostileWorld::default());
    processor.enter(|| {
        let children = || [(); 2].map(|()| stage.call(|_| std::future::pending::<()>()));
        let [mut call, _] = children();
        processor.turn(&world);
        assert!(poll_once(&mut call, &panicking_waker()).is_pending());
        let [a, b] = children();
        let mut joined = join((a, b));
        let _ = poll_once(&mut joined, &panicking_waker());
        let mut timer = sleep(Duration::from_secs(1));
        assert!(poll_once(&mut timer, &panicking_waker()).is_pending());
        let session = Session::new();
        let guard = session.guard();
        assert!(poll_once(&mut session.end(), &panicking_waker()).is_pending());
        // The queue is full already, if the children above are queued.
        let _ = stage.dispatch(|_| async {});
        assert!(poll_once(&mut stage.wait_for_capacity(), &panicking_waker()).is_pending());
        std::mem::forget((call, joined, timer, session, guard));
    });
    drop(processor);
}

/// Destructors that run at the end invoke, cancel, send and wait, without effect.
#[test]
fn destructors_at_the_end_may_use_everything() {
    silence_expected_panics();
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let parts = graph.partitioned("parts", |_| 0u32);
    let ([one, two], world, alive) = (build(graph), HostileWorld::default(), Count::default());
    for processor in [&one, &two] {
        processor.enter(|| {
            for _ in 0..3 {
                let (token, (sender, waits)) = (alive.token(), oneshot::local::<()>());
                let mut sender = Some(sender);
                let call = stage.call_on(1, |_| std::future::pending::<()>());
                let last = OnDrop(move || {
                    drop(stage.call(|_| async {}));
                    drop(stage.call_on(0, |_| async {}));
                    drop(parts.call(7, |part: Partition<u32>| async move { part.with(|n| *n) }));
                    call.cancel();
                    let session = Session::new();
                    drop(session.end());
                    let _ = poll_once(&mut sleep(Duration::from_millis(1)), Waker::noop());
                    sender.take().into_iter().for_each(|sender| sender.send(()));
                    panic!("hostile destructor");
                });
                let operation = stage.dispatch(move |_| async move {
                    let _held = (token, last);
                    std::future::pending::<()>().await
                });
                operation.unwrap();
                stage.dispatch(move |_| async move { _ = waits.await }).unwrap();
            }
        });
    }
    one.turn(&world);
    two.turn(&world);
    one.turn(&world);
    drop(one);
    two.turn(&world);
    drop(two);
    assert_eq!(alive.alive(), 0);
}

/// A world that panics ends its processor, which is then dropped while that panic unwinds.
#[test]
fn a_processor_may_end_while_a_panic_unwinds() {
    silence_expected_panics();
    let alive = Count::default();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        graph.partitioned("state", |_| OnDrop(|| panic!("hostile destructor")));
        let ([processor], world) = (build(graph), HostileWorld::default());
        processor.enter(|| {
            for _ in 0..3 {
                let (token, bomb) = (alive.token(), OnDrop(|| panic!("hostile destructor")));
                let operation = stage.dispatch(move |_| async move {
                    let _held = (bomb, token);
                    std::future::pending::<()>().await
                });
                operation.unwrap();
            }
        });
        processor.turn(&world);
        world.clock.set(Some(0));
        processor.turn(&world);
    }));
    assert!(result.is_err());
    assert_eq!(alive.alive(), 0);
}
