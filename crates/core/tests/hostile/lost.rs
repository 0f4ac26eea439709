//! Operations that are in no queue at the moment when foreign code panics.
//!
//! Each test has operations wait in a tokio `Notify`, which keeps pointers into their futures. An
//! operation that is forgotten leaves such a pointer behind.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use phalanx_core::{Graph, SharedStage, oneshot, prefetch};
use tokio::sync::Notify;

use crate::support::{Bomb, Count, HostileWorld, build, settle, silence_expected_panics};

/// An external event that affects an operation.
type Go = oneshot::LocalSender<()>;

/// An operation that waits for a notification or for a value, whichever is first.
fn waits(stage: SharedStage<()>, notify: &Arc<Notify>, token: Rc<()>) -> Go {
    let (go, receiver) = oneshot::local::<()>();
    let notify = notify.clone();
    let operation = stage.dispatch(move |_| async move {
        let _token = token;
        let mut notified = std::pin::pin!(notify.notified());
        let mut receiver = std::pin::pin!(receiver);
        std::future::poll_fn(|context| {
            let notified = notified.as_mut().poll(context).is_ready();
            if notified || receiver.as_mut().poll(context).is_ready() {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
    });
    operation.unwrap();
    go
}

/// The stage's queue is full. So its newest operation is put aside for one that another processor sent, and refusing
/// that one runs a destructor.
#[test]
fn an_operation_set_aside_for_a_rejected_one_returns() {
    silence_expected_panics();
    let mut graph = Graph::new();
    graph.max_operations(2);
    let stage = graph.stage("stage").capacity(2).shared(());
    let ([one, two], world) = (build(graph), HostileWorld::default());
    let (notify, alive) = (Arc::new(Notify::new()), Count::default());
    let go: Vec<_> = one.enter(|| (0..2).map(|_| waits(stage, &notify, alive.token())).collect());
    one.turn(&world);
    two.enter(|| {
        for _ in 0..2 {
            let bomb = Bomb;
            drop(stage.call_on(0, move |_| async move { drop(bomb) }));
        }
    });
    two.turn(&world);
    one.enter(|| go.into_iter().for_each(|go| go.send(())));
    settle(&[one, two], &world);
    assert_eq!(alive.alive(), 0, "both have run");
    notify.notify_waiters();
}

#[test]
fn an_operation_that_panicked_is_dropped_even_if_the_subscriber_panics() {
    silence_expected_panics();
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let ([processor], world) = (build(graph), HostileWorld::default());
    let (notify, alive) = (Arc::new(Notify::new()), Count::default());
    world.subscriber.set(true);
    let (waits, token) = (notify.clone(), alive.token());
    processor.enter(|| {
        let operation = stage.dispatch(move |_| async move {
            let _token = token;
            let mut notified = std::pin::pin!(waits.notified());
            notified.as_mut().enable();
            panic!("hostile operation");
        });
        operation.unwrap();
    });
    settle(std::slice::from_ref(&processor), &world);
    assert_eq!((processor.live(), alive.alive()), (0, 0));
    assert_eq!(world.panics.take(), ["stage: hostile operation"]);
    notify.notify_waiters();
}

/// An operation that waits in a `Notify` and prefetches meanwhile.
fn prefetches(stage: SharedStage<()>, notify: &Arc<Notify>, token: Rc<()>, done: Rc<Cell<u32>>) {
    let notify = notify.clone();
    let operation = stage.dispatch(move |_| async move {
        let _token = token;
        let mut notified = std::pin::pin!(notify.notified());
        notified.as_mut().enable();
        let data = [0u8; 64];
        prefetch(&data).await;
        prefetch(&data).await;
        done.set(done.get() + 1);
    });
    operation.unwrap();
}

/// The clock panics when it is read for the `n`th time in a cohort with prefetches under way.
#[test]
fn operations_that_wait_for_prefetches_survive_a_clock_that_panics() {
    silence_expected_panics();
    for nth in 0..6 {
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        let ([processor], world) = (build(graph), HostileWorld::default());
        let (notify, alive) = (Arc::new(Notify::new()), Count::default());
        let done = Rc::new(Cell::new(0));
        processor.enter(|| {
            for _ in 0..20 {
                prefetches(stage, &notify, alive.token(), done.clone());
            }
        });
        world.clock.set(Some(nth));
        let turn = || processor.turn(&world);
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(turn));
        world.clock.set(None);
        settle(std::slice::from_ref(&processor), &world);
        assert_eq!((done.get(), alive.alive(), processor.live()), (20, 0, 0), "nth {nth}");
        notify.notify_waiters();
    }
}

/// The same while the cohort of another stage interrupts the one with prefetches.
#[test]
fn operations_aside_for_an_interruption_come_back() {
    silence_expected_panics();
    for nth in (0..40).step_by(if cfg!(miri) { 9 } else { 1 }) {
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        let urgent = graph.stage("urgent").threshold(1, None).shared(());
        let ([processor], world) = (build(graph), HostileWorld::default());
        let (notify, alive) = (Arc::new(Notify::new()), Count::default());
        let done = Rc::new(Cell::new(0));
        processor.enter(|| {
            for _ in 0..6 {
                prefetches(stage, &notify, alive.token(), done.clone());
                let token = alive.token();
                stage
                    .dispatch(move |_| async move {
                        urgent.dispatch(move |_| async move { drop(token) }).unwrap();
                    })
                    .unwrap();
            }
        });
        world.clock.set(Some(nth));
        let turn = || processor.turn(&world);
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(turn));
        world.clock.set(None);
        settle(std::slice::from_ref(&processor), &world);
        assert_eq!((done.get(), alive.alive(), processor.live()), (6, 0, 0), "nth {nth}");
        notify.notify_waiters();
    }
}

/// The processor is dropped while everything is in progress: nothing outlives it.
#[test]
fn a_processor_that_goes_leaves_no_waiter_behind() {
    silence_expected_panics();
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let ([processor], world) = (build(graph), HostileWorld::default());
    let (notify, alive) = (Arc::new(Notify::new()), Count::default());
    let go: Vec<_> =
        processor.enter(|| (0..3).map(|_| waits(stage, &notify, alive.token())).collect());
    processor.turn(&world);
    processor.enter(|| {
        let (go, bomb, token) = (go, Bomb, alive.token());
        let unstarted = stage.dispatch(move |_| async move { drop((go, bomb, token)) });
        unstarted.unwrap();
    });
    drop(processor);
    assert_eq!(alive.alive(), 0);
    notify.notify_waiters();
}
