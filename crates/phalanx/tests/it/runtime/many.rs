//! More processors than cores, and several programs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use phalanx::runtime::DriverChoice;
use phalanx::shutdown::draining;
use phalanx::{Graph, join, sleep};

use crate::runtime::harness::{one, runtime};
use crate::runtime::on_each_driver;

on_each_driver!(more_than_cores, one_after_the_other, at_once, one_within_another);

/// Each processor calls each partition, so all pairs of processors communicate.
fn more_than_cores(driver: DriverChoice) {
    let processors = 2 * thread::available_parallelism().map_or(1, usize::from) + 5;
    let answers = Arc::new(AtomicUsize::new(0));
    let mut graph = Graph::new();
    let request = graph.shared("ask", ());
    let answer = graph.partitioned("answer", |index| index as u64);
    let done = answers.clone();
    let ran = runtime(driver, processors).pin(true).run(graph, move |start| {
        let (done, control) = (done.clone(), start.control());
        request.dispatch(move |_| async move {
            for round in 0..20 {
                let calls: Vec<_> = (0..64)
                    .map(|key| {
                        answer.call(key, move |partition| async move {
                            if round % 5 == 0 {
                                sleep(Duration::from_millis(1)).await;
                            }
                            partition.with(|count| {
                                *count += 1;
                                key
                            })
                        })
                    })
                    .collect();
                for (key, answer) in join(calls).await.into_iter().enumerate() {
                    assert_eq!(answer.unwrap(), key as u64);
                }
            }
            if done.fetch_add(1, Ordering::SeqCst) + 1 == processors {
                control.drain();
            }
        })?;
        // Runs until the last caller has its results.
        request.dispatch(|_| async { draining().await })?;
        Ok(())
    });
    ran.unwrap();
    assert_eq!(answers.load(Ordering::SeqCst), processors);
}

/// A program leaves nothing behind for the next one.
fn one_after_the_other(driver: DriverChoice) {
    #[cfg(target_os = "linux")]
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map_while(Result::ok);
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
        tasks.filter_map(|task| name(task).ok()).filter(|name| name.starts_with("leak-")).count()
    };
    for round in 0..20 {
        let result = one(driver, move |stage| async move {
            sleep(Duration::from_millis(1)).await;
            stage.call(move |_| async move { round }).await.unwrap()
        });
        assert_eq!(result, round);
    }
    #[cfg(target_os = "linux")]
    assert_eq!(threads(), 0);
}

fn at_once(driver: DriverChoice) {
    thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let sum = Arc::new(AtomicUsize::new(0));
                let mut graph = Graph::new();
                let stage = graph.shared("test", number);
                let total = sum.clone();
                let ran = runtime(driver, 2).run(graph, move |start| {
                    let (control, total) = (start.control(), total.clone());
                    stage.dispatch(move |state| async move {
                        for _ in 0..10 {
                            sleep(Duration::from_millis(1)).await;
                            total.fetch_add(*state, Ordering::SeqCst);
                        }
                        if start_is_last(&total, 20 * *state) {
                            control.drain();
                        }
                        draining().await;
                    })?;
                    Ok(())
                });
                ran.unwrap();
                assert_eq!(sum.load(Ordering::SeqCst), 20 * number);
            });
        }
    });
}

fn start_is_last(total: &AtomicUsize, all: usize) -> bool {
    total.load(Ordering::SeqCst) == all
}

/// An operation that runs a whole program, on a thread because it blocks.
fn one_within_another(driver: DriverChoice) {
    let outer = one(driver, move |_| async move {
        let inner = thread::spawn(move || {
            one(driver, |_| async {
                sleep(Duration::from_millis(5)).await;
                3
            })
        });
        sleep(Duration::from_millis(1)).await;
        inner.join().unwrap() + 4
    });
    assert_eq!(outer, 7);
}
