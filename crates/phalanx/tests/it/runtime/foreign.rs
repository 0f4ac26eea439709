//! Operations that other threads start.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use phalanx::foreign::{Foreign, ForeignError};
use phalanx::runtime::DriverChoice;
use phalanx::{CallError, Graph, PartitionedStage, Session, sleep};

use crate::runtime::harness::{on_other_thread, one, runtime};
use crate::runtime::on_each_driver;

on_each_driver!(
    threads_call_stages,
    a_full_queue_refuses,
    operations_start_in_order,
    panics_reach_their_callers,
    a_call_that_fails_does_not_run,
    the_rest_runs_when_the_program_drains,
);

fn threads_call_stages(driver: DriverChoice) {
    const THREADS: u64 = 4;
    const CALLS: u64 = 50;
    let mut graph = Graph::new();
    let entry = graph.shared("entry", ());
    let sums: PartitionedStage<u64> = graph.partitioned("sums", |_| 0);
    let finished = Arc::new(AtomicUsize::new(0));
    let counter = finished.clone();
    let ran = runtime(driver, 2).run(graph, move |start| {
        for _ in 0..THREADS / 2 {
            let entry = Foreign::new(entry, 1_000)?;
            let (control, finished) = (start.control(), finished.clone());
            thread::spawn(move || {
                // Both waiting forms, and operations that nobody waits for.
                for call in 0..CALLS {
                    let add = move |_| async move {
                        let added =
                            sums.call(call % 8, |sum| async move { sum.with(|sum| *sum += 1) });
                        added.await.unwrap();
                    };
                    match call % 2 {
                        0 => entry.call(add).unwrap().wait().unwrap(),
                        _ => entry.dispatch(add).unwrap(),
                    }
                }
                let last = entry.call(|_| async { 7 }).unwrap();
                assert_eq!(last.wait(), Ok(7));
                if finished.fetch_add(1, Ordering::SeqCst) + 1 == THREADS as usize {
                    control.drain();
                }
            });
        }
        Ok(())
    });
    ran.unwrap();
    assert_eq!(counter.load(Ordering::SeqCst), THREADS as usize);
}

fn a_full_queue_refuses(driver: DriverChoice) {
    one(driver, |stage| async move {
        let handle = Foreign::new(stage, 3).unwrap();
        let other = handle.clone();
        // This processor is blocked in the meantime, so nothing leaves the queue.
        let refused = thread::spawn(move || {
            let results: Vec<_> = (0..5).map(|_| other.dispatch(|_| async {})).collect();
            results.into_iter().filter_map(Result::err).collect::<Vec<_>>()
        });
        let refused = refused.join().unwrap();
        assert_eq!(refused, [ForeignError::Full { capacity: 3 }; 2]);
        assert_eq!(handle.refused(), 2);
        // There is room again, even for an operation of this processor.
        sleep(Duration::from_millis(1)).await;
        assert_eq!(handle.call(|_| async { 5 }).unwrap().await, Ok(5));
    });
}

fn operations_start_in_order(driver: DriverChoice) {
    one(driver, |stage| async move {
        let handle = Foreign::new(stage, 20).unwrap();
        let started = Arc::new(Mutex::new(Vec::new()));
        let note = |number| {
            let started = started.clone();
            move |_| async move { started.lock().unwrap().push(number) }
        };
        let mut calls = Vec::new();
        for number in 0..10 {
            match number % 2 {
                0 => calls.push(handle.call(note(number)).unwrap()),
                _ => handle.dispatch(note(number)).unwrap(),
            }
        }
        calls.push(handle.call(note(10)).unwrap());
        for call in calls {
            call.await.unwrap();
        }
        assert_eq!(*started.lock().unwrap(), (0..=10).collect::<Vec<_>>());
    });
}

fn panics_reach_their_callers(driver: DriverChoice) {
    one(driver, |stage| async move {
        let handle = Foreign::new(stage, 3).unwrap();
        let result = on_other_thread(move || {
            let call = handle.call(|_| async { panic!("by intent") }).unwrap();
            let next = handle.call(|_| async { 1 }).unwrap();
            (call.wait(), next.wait())
        });
        let (panicked, next): (Result<(), _>, _) = result.await;
        assert!(matches!(panicked, Err(CallError::Panicked { .. })), "{panicked:?}");
        assert_eq!(next, Ok(1));
        // A handle without clones ends its operation.
        sleep(Duration::from_millis(1)).await;
    });
}

fn the_rest_runs_when_the_program_drains(driver: DriverChoice) {
    let mut graph = Graph::new();
    let stage = graph.stage("bounded").capacity(2).shared(());
    let started = Arc::new(AtomicUsize::new(0));
    let counted = started.clone();
    let (sender, handles) = std::sync::mpsc::channel();
    let blocked = AtomicBool::new(false);
    let ran = runtime(driver, 1).run(graph, move |start| {
        assert!(!blocked.swap(true, Ordering::SeqCst), "one processor");
        let handle = Foreign::new(stage, 100)?;
        // More than the stage has capacity for.
        for _ in 0..50 {
            let counted = counted.clone();
            let counts = move |_| async move {
                sleep(Duration::from_millis(1)).await;
                counted.fetch_add(1, Ordering::SeqCst);
            };
            handle.dispatch(counts).unwrap();
        }
        sender.send(handle).unwrap();
        start.control().drain();
        Ok(())
    });
    ran.unwrap();
    assert_eq!(started.load(Ordering::SeqCst), 50);
    let handle = handles.recv().unwrap();
    assert_eq!(handle.dispatch(|_| async {}), Err(ForeignError::Ended));
    assert_eq!(handle.refused(), 0);
}

/// A call needs two slots. Whichever of them is missing, its error means that it does not run, so it may be repeated.
fn a_call_that_fails_does_not_run(driver: DriverChoice) {
    let mut graph = Graph::new();
    graph.max_operations(16);
    let stage = graph.shared("small", ());
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let results = outcomes.clone();
    let ran = runtime(driver, 1).run(graph, move |start| {
        let (control, outcomes) = (start.control(), outcomes.clone());
        stage.dispatch(move |_| async move {
            let handle = Foreign::new(stage, 10).unwrap();
            let sleeper = || {
                let session = Session::new();
                let started = session.scope(|| stage.dispatch(|_| sleep(Duration::MAX)));
                started.ok().map(|()| session)
            };
            let mut sleepers: Vec<_> = std::iter::from_fn(sleeper).collect();
            for _free in 0..4 {
                let runs = Arc::new(AtomicBool::new(false));
                let run = runs.clone();
                let call = handle.call(move |_| async move { run.store(true, Ordering::SeqCst) });
                let result = call.unwrap().await;
                sleep(Duration::from_millis(1)).await;
                outcomes.lock().unwrap().push((result.is_ok(), runs.load(Ordering::SeqCst)));
                sleepers.pop().expect("many slots").end().await;
            }
            for sleeper in sleepers {
                sleeper.end().await;
            }
            control.drain();
        })?;
        Ok(())
    });
    ran.unwrap();
    let (fails, succeeds) = ((false, false), (true, true));
    assert_eq!(*results.lock().unwrap(), [fails, fails, succeeds, succeeds]);
}
