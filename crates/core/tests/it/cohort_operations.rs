//! Cohort operations: one call of the handler for all items, and a reply for each.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::common::{Bench, settle, single_processor};
use phalanx_core::{CallError, Cohort, Graph, Reply, Session, join, yield_now};

type Sizes = std::sync::Arc<Mutex<Vec<usize>>>;

fn take(sizes: &Sizes) -> Vec<usize> {
    std::mem::take(&mut sizes.lock().unwrap())
}

#[test]
fn the_handler_gets_all_at_once_in_one_piece_of_memory() {
    let (mut graph, sizes) = (Graph::new(), Sizes::default());
    let front = graph.shared("front", ());
    let seen = sizes.clone();
    let double = graph.stage("double").max_cohort(8).cohort(
        |processor| processor + 100,
        move |state: &mut usize, cohort: &mut Cohort<(usize, u8), usize>| {
            seen.lock().unwrap().push(cohort.len());
            assert!(cohort.windows(2).all(|pair| pair[0].item.0 + 1 == pair[1].item.0), "in order");
            for entry in cohort.iter_mut() {
                *state += 1;
                let value = entry.item.0 * 2 + usize::from(entry.item.1);
                entry.reply(value);
            }
        },
    );
    let (processor, world, sum) =
        (single_processor(graph), Bench::default(), Rc::new(Cell::new(0)));
    settle(&processor, &world, || {
        let sum = sum.clone();
        front
            .dispatch(move |_| async move {
                let calls: Vec<_> = (0..20).map(|n| double.call((n, 1))).collect();
                let all = join(calls).await;
                sum.set(all.into_iter().map(Result::unwrap).sum());
            })
            .unwrap();
    });
    assert_eq!(sum.get(), (0..20).map(|n| 2 * n + 1).sum::<usize>());
    assert_eq!(take(&sizes), [8, 8, 4]);
    assert_eq!(processor.live(), 0);
    let profile = processor.control().profile();
    let stage = &profile.processors[0].stages[1];
    assert_eq!((stage.started.count, stage.completed.count, stage.cohorts), (20, 20, 3));
    assert_eq!((stage.suspended, stage.cohort_max, stage.queue_length_max), (0, 8, 20));
    assert_eq!(profile.processors[0].arcs[0][1], 20);
    assert_eq!(profile.processors[0].arcs[1][0], 1, "the join woke its parent once");
}

/// Group commit: an operation writes for all, then gives all replies.
#[test]
fn replies_may_be_kept_and_given_by_an_operation() {
    let (mut graph, sizes) = (Graph::new(), Sizes::default());
    let front = graph.shared("front", ());
    let disk = graph.shared("disk", Mutex::new(Vec::<u32>::new()));
    let commits = sizes.clone();
    let journal = graph.stage("journal").cohort(
        |_| (),
        move |(), cohort: &mut Cohort<u32, usize>| {
            let (records, replies): (Vec<u32>, Vec<Reply<usize>>) = cohort.drain().unzip();
            commits.lock().unwrap().push(records.len());
            disk.dispatch(move |disk| async move {
                disk.lock().unwrap().extend(records);
                yield_now().await; // it is being written
                let length = disk.lock().unwrap().len();
                replies.into_iter().for_each(|reply| reply.send(length));
            })
            .unwrap();
        },
    );
    let (processor, world, done) =
        (single_processor(graph), Bench::default(), Rc::new(Cell::new(0)));
    settle(&processor, &world, || {
        for n in 0..10 {
            let done = done.clone();
            front
                .dispatch(move |_| async move {
                    assert_eq!(journal.call(n).await, Ok(12));
                    done.set(done.get() + 1);
                })
                .unwrap();
        }
        // An item without a caller.
        journal.dispatch(10).unwrap();
        journal.dispatch(11).unwrap();
    });
    assert_eq!((done.get(), take(&sizes)), (10, vec![12]), "one write for all");
    assert_eq!(processor.live(), 0);
    let stage = &processor.control().profile().processors[0].stages[2];
    assert_eq!((stage.started.count, stage.suspended, stage.completed.count), (12, 12, 12));
    assert_eq!((stage.resumed.count, stage.suspended_now()), (12, 0), "their replies were kept");
}

#[test]
fn unanswered_callers_get_an_error() {
    let mut graph = Graph::new();
    let front = graph.shared("front", ());
    let rejecting = graph.stage("fussy").cohort(
        |_| Vec::new(),
        |kept: &mut Vec<Reply<u32>>, cohort: &mut Cohort<u32, u32>| {
            let mut taken = None;
            for entry in cohort.iter_mut() {
                match entry.item {
                    0 => entry.reply(7),
                    1 => drop(entry.take_reply()),
                    2 => kept.push(entry.take_reply()),
                    3 => kept.clear(),
                    4 => {
                        taken = Some(entry.take_reply());
                        continue;
                    }
                    5 => panic!("at five"),
                    _ => {}
                }
            }
            drop(taken);
        },
    );
    let (processor, world) = (single_processor(graph), Bench::default());
    let call_items = |items: &'static [u32]| {
        let answers = Rc::new(RefCell::new(Vec::new()));
        let out = answers.clone();
        processor.enter(|| {
            front
                .dispatch(move |_| async move {
                    let calls: Vec<_> = items.iter().map(|n| rejecting.call(*n)).collect();
                    *out.borrow_mut() = join(calls).await;
                })
                .unwrap();
        });
        settle(&processor, &world, || ());
        answers.take()
    };
    let unanswered = Err(CallError::ReplyDropped { stage: "fussy" });
    let panicked = Err(CallError::Panicked { stage: "fussy", message: "at five".into() });
    assert_eq!(
        call_items(&[0, 1, 9, 4]),
        [Ok(7), unanswered.clone(), unanswered.clone(), unanswered.clone()]
    );
    // When a cohort panics, replies that were sent remain valid; dropped, taken and untouched items all fail.
    let failed = [Ok(7), panicked.clone(), panicked.clone(), panicked.clone(), panicked.clone()];
    assert_eq!(call_items(&[0, 1, 4, 5, 0]), failed);
    // Replies that are kept beyond the end of their cohort, and dropped in a later one.
    assert_eq!(call_items(&[2]), []);
    assert_eq!(processor.live(), 2, "the item and its caller");
    assert_eq!(call_items(&[3]), [unanswered]);
    assert_eq!(processor.live(), 0);
    let profile = processor.control().profile();
    let stage = &profile.processors[0].stages[1];
    assert_eq!((stage.started.count, stage.panicked, stage.suspended), (11, 4, 1));
    assert_eq!((stage.cancelled, stage.suspended_now()), (1, 0), "the one that was kept in vain");
}

#[test]
fn a_session_ends_items_wherever_they_are() {
    let mut graph = Graph::new();
    let front = graph.shared("front", ());
    let values = std::sync::Arc::new(());
    let value = values.clone();
    let retaining = graph.stage("keep").cohort(
        |_| Vec::new(),
        move |kept: &mut Vec<Reply<std::sync::Arc<()>>>, cohort: &mut Cohort<bool, _>| {
            for (is_done, reply) in cohort.drain() {
                kept.push(reply);
                if is_done {
                    kept.drain(..).for_each(|reply| reply.send(value.clone()));
                }
            }
        },
    );
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || {
        let session = Session::new();
        let call_items = move |_| async move {
            let _ = join(vec![retaining.call(false), retaining.call(false)]).await;
            unreachable!("ended before");
        };
        session.scope(|| front.dispatch(call_items)).unwrap();
        while processor.turn(&world).ran > 0 {}
        assert_eq!(session.operations(), 3, "the caller and two items in the handler's hands");
        // These are still queued when it ends.
        session.scope(|| retaining.dispatch(false)).unwrap();
        let end = session.clone();
        front.dispatch(move |_| async move { end.end().await }).unwrap();
        while processor.turn(&world).ran > 0 {}
        assert_eq!(session.operations(), 0);
        assert_eq!(session.scope(|| retaining.dispatch(true)), Err(CallError::Cancelled));
        // Replies to cancelled calls are dropped, and do not affect the new owners of their slots.
        front
            .dispatch(move |_| async move {
                let others: Vec<_> = (0..4).map(|_| front.call(|_| yield_now())).collect();
                retaining.call(true).await.unwrap();
                assert!(join(others).await.iter().all(Result::is_ok));
            })
            .unwrap();
    });
    assert_eq!(processor.live(), 0);
    drop(processor);
    assert_eq!(std::sync::Arc::strong_count(&values), 1, "no value is left anywhere");
}

#[test]
fn items_cross_processors_and_replies_come_home() {
    static STATES: AtomicUsize = AtomicUsize::new(0);
    static SUM: AtomicUsize = AtomicUsize::new(0);
    let mut graph = Graph::new();
    let front = graph.shared("front", ());
    let owned = graph.stage("owned").partitioned_cohort(
        |processor| processor,
        |processor: &mut usize, cohort: &mut Cohort<u64, String>| {
            STATES.fetch_or(1 << *processor, Ordering::Relaxed);
            for (key, reply) in cohort.drain() {
                reply.send(format!("{key} on {processor}"));
            }
        },
    );
    let total = graph.stage("total").exclusive_cohort(
        0u32,
        |total: &mut u32, cohort: &mut Cohort<u32, u32>| {
            for entry in cohort.iter_mut() {
                *total += entry.item;
                let previous = *total;
                entry.reply(previous);
            }
        },
    );
    static REMAINING: AtomicU32 = AtomicU32::new(2);
    crate::common::run(graph, 2, |index, control| {
        let control = control.clone();
        front
            .dispatch(move |_| async move {
                for key in 0..200 {
                    let answer = owned.call(key, key).await.unwrap();
                    let here = owned.is_local(key);
                    assert_eq!(
                        answer,
                        format!("{key} on {}", if here { index } else { 1 - index })
                    );
                }
                let calls: Vec<_> = (0..500).map(|n| total.call_on((n & 1) as usize, n)).collect();
                let last = join(calls).await.into_iter().map(Result::unwrap).max();
                SUM.fetch_max(last.unwrap() as usize, Ordering::Relaxed);
                if REMAINING.fetch_sub(1, Ordering::Relaxed) == 1 {
                    control.drain();
                }
            })
            .unwrap();
    });
    assert_eq!(STATES.load(Ordering::Relaxed), 3);
    assert_eq!(SUM.load(Ordering::Relaxed), 2 * 499 * 500 / 2);
}

#[test]
fn panics_and_ends_travel_home_too() {
    let mut graph = Graph::new();
    let front = graph.shared("front", ());
    let stage = graph.stage("there").cohort(
        |_| Vec::new(),
        |kept: &mut Vec<Reply<Box<u32>>>, cohort: &mut Cohort<Box<u32>, Box<u32>>| {
            for entry in cohort.iter_mut() {
                match *entry.item {
                    0 => panic!("there"),
                    1 => kept.push(entry.take_reply()),
                    _ => {}
                }
            }
        },
    );
    static RESULTS: Mutex<Vec<Result<Box<u32>, CallError>>> = Mutex::new(Vec::new());
    crate::common::run(graph, 2, |index, control| {
        if index == 0 {
            front
                .dispatch(move |_| async move {
                    for item in [0, 2] {
                        let answer = stage.call_on(1, Box::new(item)).await;
                        RESULTS.lock().unwrap().push(answer);
                    }
                    // The reply is kept on the other processor when everything is cancelled. The caller still gets an
                    // error.
                    let kept = stage.call_on(1, Box::new(1));
                    control.end();
                    let _ = kept.await;
                })
                .unwrap();
        }
    });
    let panicked = CallError::Panicked { stage: "there", message: "there".into() };
    let unanswered = CallError::ReplyDropped { stage: "there" };
    assert_eq!(*RESULTS.lock().unwrap(), [Err(panicked), Err(unanswered)]);
}

#[test]
fn options_apply_and_the_end_of_a_cohort_runs_its_hook() {
    let mut graph = Graph::new();
    let log: std::sync::Arc<Mutex<Vec<String>>> = std::sync::Arc::default();
    let (items, ends, flushes) = (log.clone(), log.clone(), log.clone());
    let near = graph.shared("near", ());
    let flush = graph.shared("flush", flushes);
    let gather = graph
        .stage("gather")
        .threshold(3, None)
        .capacity(4)
        .end_of_cohort(move || {
            ends.lock().unwrap().push("end".into());
            flush.dispatch(|log| async move { log.lock().unwrap().push("flush".into()) }).unwrap();
        })
        .cohort(
            |_| (),
            move |(), cohort: &mut Cohort<u32, ()>| {
                items.lock().unwrap().push(format!("{} items", cohort.len()));
            },
        );
    let (processor, world) = (single_processor(graph), Bench::default());
    settle(&processor, &world, || {
        for n in 0..4 {
            near.dispatch(move |_| async move { gather.dispatch(n).unwrap() }).unwrap();
        }
        processor.turn(&world);
        for n in 0..4 {
            gather.dispatch(n).unwrap();
        }
        assert!(!gather.has_capacity());
        assert_eq!(gather.dispatch(4), Err(CallError::Full { stage: Some("gather"), bound: 4 }));
        near.dispatch(move |_| async move {
            gather.wait_for_capacity().await;
            gather.dispatch(9).unwrap();
        })
        .unwrap();
    });
    let log = log.lock().unwrap().join(", ");
    let expected =
        "3 items, end, flush, 1 items, end, flush, 4 items, end, flush, 1 items, end, flush";
    assert_eq!(log, expected);
    assert_eq!(processor.control().profile().processors[0].arcs[2][1], 4, "from gather to flush");
    assert_eq!(processor.live(), 0);
}
