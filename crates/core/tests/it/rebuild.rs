//! Rebuildable states after a panic, and states that are not rebuildable.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{Bench, settle, single_processor};
use phalanx_core::{CallError, Cohort, Graph, Partition, yield_now};

/// Two numbers that should be the same.
struct Pair(u32, u32, #[allow(dead_code, reason = "counted")] Arc<()>);

impl Pair {
    fn tear(&mut self) {
        self.0 += 1;
        panic!("torn");
    }
}

#[test]
fn a_torn_partition_is_dropped_and_made_anew() {
    let mut graph = Graph::new();
    let alive = Arc::new(());
    let token = alive.clone();
    let make = move |n: usize| Pair(n as u32, n as u32, token.clone());
    let kept = graph.stage("kept").partitions(2).partitioned(make.clone());
    let rebuilt = graph.stage("mended").partitions(2).rebuild_on_panic().partitioned(make);
    let (processor, world) = (single_processor(graph), Bench::default());
    let seen: Arc<Mutex<Vec<(u32, u32)>>> = Arc::default();
    let states = Arc::strong_count(&alive);
    // A key of each partition.
    let keys: Arc<Mutex<[u64; 2]>> = Arc::default();
    settle(&processor, &world, || {
        for key in 0..50 {
            let keys = keys.clone();
            let note = move |part: Partition<Pair>| async move {
                keys.lock().unwrap()[part.index()] = key;
            };
            kept.dispatch(key, note).unwrap();
        }
    });
    let [one, two] = *keys.lock().unwrap();
    for stage in [kept, rebuilt] {
        settle(&processor, &world, || {
            let seen = seen.clone();
            let test = move |part: Partition<Pair>| async move {
                let modifying = stage.call(one, |part| async move {
                    part.with(|pair| pair.1 = 9); // its own change, before the panic
                    yield_now().await;
                    part.with(Pair::tear);
                });
                let error = modifying.await.unwrap_err();
                assert!(matches!(error, CallError::Panicked { .. }), "{error}");
                // An operation that had started continues with the new state.
                let here = part.with(|pair| (pair.0, pair.1));
                let concurrent =
                    stage.call(two, |part| async move { part.with(|pair| (pair.0, pair.1)) });
                let concurrent = concurrent.await.unwrap();
                seen.lock().unwrap().extend([here, concurrent]);
            };
            stage.dispatch(one, test).unwrap();
        });
    }
    assert_eq!(*seen.lock().unwrap(), [(1, 9), (1, 1), (0, 0), (1, 1)]);
    assert_eq!(Arc::strong_count(&alive), states, "the torn one is gone");
    let profile = processor.control().profile();
    let rebuilt: Vec<_> =
        profile.processors[0].stages.iter().map(|stage| stage.state_rebuilds).collect();
    assert_eq!(rebuilt, [0, 1]);
}

#[test]
fn an_exclusive_state_is_made_anew_for_all_processors() {
    static BUILDS: AtomicU32 = AtomicU32::new(0);
    static VALUE: AtomicU32 = AtomicU32::new(99);
    let mut graph = Graph::new();
    let front = graph.shared("front", ());
    let count = graph.stage("count").rebuild_on_panic().exclusive(|| {
        BUILDS.fetch_add(1, Ordering::Relaxed);
        0u32
    });
    let control = crate::common::run(graph, 2, |index, control| {
        if index == 0 {
            front
                .dispatch(move |_| async move {
                    let panicking = count.call(|count| async move {
                        count.with(|count| {
                            *count = 5;
                            panic!("torn")
                        })
                    });
                    let panicking: Result<(), _> = panicking.await;
                    assert!(panicking.is_err());
                    let there = front.call_on(1, move |_| async move {
                        count.call(|count| async move { count.with(|count| *count) }).await
                    });
                    VALUE.store(there.await.unwrap().unwrap(), Ordering::Relaxed);
                    control.drain();
                })
                .unwrap();
        }
    });
    assert_eq!((BUILDS.load(Ordering::Relaxed), VALUE.load(Ordering::Relaxed)), (2, 0));
    let profile = control.profile();
    assert_eq!(profile.processors[1].stages[1].state_rebuilds, 1, "by the one who needed it");
}

#[test]
fn a_handlers_state_is_made_anew_and_a_failing_constructor_is_tried_again() {
    static BUILDS: AtomicU32 = AtomicU32::new(0);
    let mut graph = Graph::new();
    let front = graph.shared("front", ());
    let make = |_| match BUILDS.fetch_add(1, Ordering::Relaxed) {
        1 => panic!("not yet"),
        n => n,
    };
    let stage = graph.stage("batch").rebuild_on_panic().cohort(
        make,
        |state: &mut u32, cohort: &mut Cohort<bool, u32>| {
            for entry in cohort.iter_mut() {
                assert!(entry.item, "torn");
                entry.reply(*state);
            }
        },
    );
    let (processor, world) = (single_processor(graph), Bench::default());
    let seen: Rc<RefCell<Vec<Result<u32, String>>>> = Rc::default();
    settle(&processor, &world, || {
        let seen = seen.clone();
        front
            .dispatch(move |_| async move {
                for item in [true, false, true, true] {
                    let answer = stage.call(item).await.map_err(|error| match error {
                        CallError::Panicked { message, .. } => message.into_string(),
                        other => panic!("{other}"),
                    });
                    seen.borrow_mut().push(answer);
                }
            })
            .unwrap();
    });
    assert_eq!(*seen.borrow(), [Ok(0), Err("torn".into()), Err("not yet".into()), Ok(2)]);
    assert_eq!(processor.control().profile().processors[0].stages[1].state_rebuilds, 1);
}
