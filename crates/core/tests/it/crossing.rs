//! Operations that cross processors, on real threads.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use crate::common::run;
use phalanx_core::{CallError, Graph, Session, join, sleep, yield_now};

#[test]
fn calls_cross_and_come_home() {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let table = graph.partitioned("table", |_| 0u64);
    let sum = Arc::new(AtomicUsize::new(0));
    let out = sum.clone();
    let control = run(graph, 3, move |index, control| {
        let out = out.clone();
        main.dispatch(move |_| async move {
            for round in 0..50u64 {
                let calls: Vec<_> = (0..40u64)
                    .map(|n| {
                        table.call(n * 7 + round, move |part| async move {
                            // Neither the future nor what it holds needs to be `Send`.
                            let local = Rc::new(n);
                            yield_now().await;
                            part.with(|seen| *seen += 1);
                            *local
                        })
                    })
                    .collect();
                let total: u64 = join(calls).await.into_iter().map(Result::unwrap).sum();
                out.fetch_add(total as usize, Ordering::Relaxed);
            }
            if index == 0 {
                control.drain();
            }
        })
        .unwrap();
    });
    assert_eq!(sum.load(Ordering::Relaxed), 3 * 50 * (0..40).sum::<usize>());
    let profile = control.profile();
    let started: u64 = profile.processors.iter().map(|p| p.stages[1].started.count).sum();
    assert_eq!(started, 3 * 50 * 40);
}

#[test]
fn panics_and_orphans_cross_too() {
    let ran = Arc::new(AtomicU32::new(0));
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let work = graph.shared("work", ran.clone());
    run(graph, 2, move |index, control| {
        if index != 0 {
            return;
        }
        main.dispatch(move |_| async move {
            let panicking = work.call_on(1, |_| async {
                yield_now().await;
                panic!("far away");
            });
            let failed: Result<(), _> = panicking.await;
            let Err(CallError::Panicked { stage: "work", message }) = failed else {
                panic!("{failed:?}")
            };
            assert_eq!(&*message, "far away");
            for _ in 0..5_000 {
                let detached = work.call_on(1, |ran| async move {
                    ran.fetch_add(1, Ordering::Relaxed);
                });
                detached.detach().unwrap();
            }
            control.drain();
        })
        .unwrap();
    });
    assert_eq!(ran.load(Ordering::Relaxed), 5_000, "also more than a ring holds, also in a drain");
}

#[test]
fn an_exclusive_stage_serialises_processors() {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let count = graph.exclusive("count", (0u32, 0u32));
    let remaining = Arc::new(AtomicUsize::new(3));
    run(graph, 3, move |_, control| {
        let remaining = remaining.clone();
        main.dispatch(move |_| async move {
            for _ in 0..2_000 {
                let both = count.call(|state| async move {
                    state.with(|(a, b)| {
                        *a += 1;
                        *b += 1;
                        *a == *b
                    })
                });
                assert!(both.await.unwrap());
            }
            if remaining.fetch_sub(1, Ordering::Relaxed) == 1 {
                let total = count.call(|state| async move { state.with(|state| state.0) });
                assert_eq!(total.await.unwrap(), 6_000);
                control.drain();
            }
        })
        .unwrap();
    });
}

#[test]
fn a_foreign_thread_wakes_an_operation() {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let woken = Arc::new(AtomicU32::new(0));
    let out = woken.clone();
    run(graph, 1, move |_, control| {
        let out = out.clone();
        for n in 0..200u64 {
            let (control, out) = (control.clone(), out.clone());
            main.dispatch(move |_| async move {
                let mut started = false;
                let flag = Arc::new(AtomicU32::new(0));
                std::future::poll_fn(|context| {
                    if !std::mem::replace(&mut started, true) {
                        let (waker, flag) = (context.waker().clone(), flag.clone());
                        std::thread::spawn(move || {
                            std::thread::sleep(Duration::from_micros(n * 20));
                            flag.store(1, Ordering::Release);
                            waker.wake();
                        });
                    }
                    match flag.load(Ordering::Acquire) {
                        1 => Poll::Ready(()),
                        _ => Poll::Pending,
                    }
                })
                .await;
                if out.fetch_add(1, Ordering::Relaxed) == 199 {
                    control.drain();
                }
            })
            .unwrap();
        }
    });
    assert_eq!(woken.load(Ordering::Relaxed), 200);
}

#[test]
fn a_session_ends_its_children_elsewhere() {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let remote_stage = graph.shared("far", ());
    let alive = Arc::new(());
    run(graph, 2, move |index, control| {
        if index != 0 {
            return;
        }
        let alive = alive.clone();
        main.dispatch(move |_| async move {
            let (session, inner) = (Session::new(), alive.clone());
            session
                .scope(|| {
                    main.dispatch(move |_| async move {
                        let endless = remote_stage.call_on(1, move |_| async move {
                            let detached = inner.clone();
                            remote_stage
                                .dispatch(move |_| async move {
                                    std::future::pending::<()>().await;
                                    drop(detached);
                                })
                                .unwrap();
                            // Something that is not returned immediately, like a buffer in the kernel.
                            let guard = Session::current().unwrap().guard();
                            remote_stage.dispatch(move |_| async move { drop(guard) }).unwrap();
                            std::future::pending::<()>().await;
                            drop(inner);
                        });
                        let _ = endless.await;
                        unreachable!("ended while it waited");
                    })
                })
                .unwrap();
            sleep(Duration::from_millis(2)).await;
            session.end().await;
            assert_eq!(Arc::strong_count(&alive), 2, "back only after all of it was");
            control.drain();
        })
        .unwrap();
    });
}

#[test]
fn ending_a_program_leaves_nothing() {
    let counted = Arc::new(());
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let inner = counted.clone();
    run(graph, 2, move |index, control| {
        for _ in 0..100 {
            let counted = inner.clone();
            main.dispatch(move |_| async move {
                let remote_stage = counted.clone();
                let unanswered = main.call_on(1 - index, move |_| async move {
                    std::future::pending::<()>().await;
                    drop(remote_stage);
                });
                let _ = unanswered.await;
                drop(counted);
            })
            .unwrap();
        }
        if index == 0 {
            main.dispatch(move |_| async move {
                sleep(Duration::from_millis(10)).await;
                control.end();
            })
            .unwrap();
        }
    });
    assert_eq!(Arc::strong_count(&counted), 1);
}

/// In this test the ring to the other processor is full most of the time, and is emptied while the sender fills it.
#[test]
fn a_stage_keeps_the_order_of_a_remote_caller() {
    const OPERATIONS: usize = 50_000;
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let seen = Arc::new(AtomicUsize::new(0));
    let work = graph.stage("work").shared(seen.clone());
    let foreign_wakes = Arc::new(AtomicUsize::new(0));
    let counted = foreign_wakes.clone();
    run(graph, 2, move |index, control| {
        if index != 0 {
            return;
        }
        let foreign_wakes = counted.clone();
        main.dispatch(move |_| async move {
            let calls: Vec<_> = (0..OPERATIONS)
                .map(|n| {
                    let foreign_wakes = foreign_wakes.clone();
                    work.call_on(1, move |seen| async move {
                        if seen.fetch_add(1, Ordering::Relaxed) != n {
                            foreign_wakes.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            assert!(join(calls).await.into_iter().all(|result| result.is_ok()));
            control.drain();
        })
        .unwrap();
    });
    assert_eq!(seen.load(Ordering::Relaxed), OPERATIONS);
    assert_eq!(foreign_wakes.load(Ordering::Relaxed), 0, "operations overtook others");
}

#[test]
fn every_partition_is_reached_by_its_number() {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let table = graph.stage("table").partitions(7).partitioned(|partition| partition * 10);
    run(graph, 3, move |index, control| {
        if index != 0 {
            return;
        }
        main.dispatch(move |_| async move {
            assert_eq!(table.partitions_count(), 7);
            let calls = (0..7).map(|n| {
                table.call_partition(n, |part| async move { (part.index(), part.with(|s| *s)) })
            });
            let states: Vec<_> = join(calls.collect::<Vec<_>>()).await;
            for (n, state) in states.into_iter().enumerate() {
                assert_eq!(state, Ok((n, n * 10)));
            }
            let invalid_target =
                main.call(move |_| async move { drop(table.call_partition(7, |_| async {})) });
            assert!(matches!(invalid_target.await, Err(CallError::Panicked { .. })));
            control.drain();
        })
        .unwrap();
    });
}
