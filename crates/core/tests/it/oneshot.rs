//! Oneshot channels: values sent from other threads and other processors, or never sent.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{Bench, run, settle, single_processor};
use phalanx_core::{Graph, SharedStage, oneshot, sleep, timeout};

/// Runs an operation on the first of two processors, which receives the stage that it runs on, and then drains.
fn on_two_processors<F: Future<Output = ()> + 'static>(
    operation: impl Fn(SharedStage<()>) -> F + Send + Sync + Clone + 'static,
) {
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    run(graph, 2, move |index, control| {
        let operation = operation.clone();
        if index == 0 {
            let operation = async move |_| {
                operation(stage).await;
                control.drain();
            };
            stage.dispatch(operation).unwrap();
        }
    });
}

#[test]
fn fired_by_threads() {
    let count = Arc::new(AtomicU64::new(0));
    let received = count.clone();
    on_two_processors(move |_| {
        let received = received.clone();
        async move {
            for number in 0..300u64 {
                let (sender, receiver) = oneshot::shared();
                let thread = std::thread::spawn(move || {
                    // Sometimes before the receiver waits, sometimes while the processor is parked.
                    if number.is_multiple_of(100) {
                        std::thread::sleep(Duration::from_millis(3));
                    }
                    match number % 3 {
                        0 => drop(sender),
                        _ => sender.send(Box::new(number)),
                    }
                });
                let expected = (!number.is_multiple_of(3)).then(|| Box::new(number));
                assert_eq!(receiver.await, expected);
                received.fetch_add(1, Ordering::Relaxed);
                thread.join().unwrap();
            }
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 300);
}

#[test]
fn fired_by_another_processor() {
    let count = Arc::new(AtomicU64::new(0));
    let received = count.clone();
    on_two_processors(move |stage| {
        let received = received.clone();
        async move {
            for number in 0..300u64 {
                let (sender, receiver) = oneshot::shared();
                let sent = stage.call_on(1, move |_| async move { sender.send(number) });
                assert_eq!(receiver.await, Some(number));
                sent.await.unwrap();
                received.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 300);
}

/// Whichever of the value and the waiter is dropped first, nothing is left behind.
#[test]
fn either_end_may_go_first() {
    let value = Arc::new(());
    let (sender, receiver) = oneshot::shared();
    assert!(!sender.is_closed());
    drop(receiver);
    assert!(sender.is_closed());
    sender.send(value.clone());
    assert_eq!(Arc::strong_count(&value), 1);

    let (sender, receiver) = oneshot::shared();
    sender.send(value.clone());
    assert_eq!(Arc::strong_count(&value), 2);
    drop(receiver);
    assert_eq!(Arc::strong_count(&value), 1);

    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    let (unused_sender, receiver) = oneshot::shared::<u32>();
    settle(&processor, &world, || {
        stage
            .dispatch(move |_| async move {
                assert!(timeout(Duration::from_millis(1), receiver).await.is_err());
                sleep(Duration::from_millis(1)).await;
            })
            .unwrap();
    });
    while processor.live() > 0 {
        world.now.set(world.now.get() + 1_000_000);
        processor.turn(&world);
    }
    assert!(unused_sender.is_closed());
    unused_sender.send(1);
}
