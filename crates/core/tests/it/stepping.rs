//! Single-stepping a processor, and its leak check.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{Bench, single_processor};
use phalanx_core::{Graph, Leak, Session, join, oneshot, sleep};

#[test]
fn only_the_chosen_operations_run() {
    let mut graph = Graph::new();
    let any = graph.stage("any").max_cohort(3).lifo().shared(());
    let ordered = graph.stage("ordered").shared(());
    let (processor, world) = (single_processor(graph), Bench::default());
    let ran = Rc::new(RefCell::new(Vec::new()));
    processor.enter(|| {
        for stage in [any, ordered] {
            for number in 0..5 {
                let ran = ran.clone();
                stage.dispatch(move |_| async move { ran.borrow_mut().push(number) }).unwrap();
            }
        }
    });
    let steps = processor.stepping();
    assert_eq!(steps.ready().collect::<Vec<_>>(), [0, 1]);
    assert!(!steps.is_idle() && steps.sleep().is_none());
    // The oldest of the remaining operations, whose place the newest one takes.
    assert_eq!(steps.run(0, 2, |left| left - 1, &world), 2);
    assert_eq!(ran.take(), [0, 4]);
    assert_eq!(steps.run(0, 9, |_| 0, &world), 3, "no more than it declares");
    ran.take();
    assert_eq!(steps.run(1, 9, |_| unreachable!("it keeps its order"), &world), 5);
    assert_eq!(ran.take(), [0, 1, 2, 3, 4]);
    assert!(steps.is_idle() && steps.sleep() == Some(u64::MAX));
    steps.wake();
    assert_eq!((processor.leaks(), processor.check_invariants()), (vec![], Ok(())));
}

#[test]
fn everything_that_is_left_has_a_name() {
    let mut graph = Graph::new();
    let parent = graph.shared("parent", ());
    let child = graph.shared("child", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    let (sender, receiver) = oneshot::local::<()>();
    processor.enter(|| {
        let session = Session::new();
        session
            .scope(|| {
                parent.dispatch(move |_| async move {
                    let waits = child.call(move |_| receiver);
                    let sleeps = child.call(|_| sleep(Duration::from_millis(1)));
                    let _ = join((waits, sleeps)).await;
                })
            })
            .unwrap();
        drop(child.call(|_| async {}));
    });
    let steps = processor.stepping();
    for _ in 0..3 {
        for stage in steps.ready().collect::<Vec<_>>() {
            steps.run(stage, 9, |left| left - 1, &world);
        }
    }
    let left = processor.leaks();
    let operations = |name| {
        let is = |left: &&Leak| {
            matches!(left, Leak::Operation { stage, state: "suspended", queued: false, .. }
                if *stage == name)
        };
        left.iter().filter(is).count()
    };
    assert_eq!((operations("parent"), operations("child")), (1, 2), "{left:?}");
    let session = Leak::Session { operations: 3, guards: 0, waiting: 0 };
    for remnant in [session, Leak::Joins(1), Leak::Timers(1)] {
        assert!(left.contains(&remnant), "{remnant:?} is not in {left:?}");
    }
    assert_eq!(left.len(), 6, "{left:?}");
    processor.enter(|| sender.send(()));
    world.now.set(10_000_000);
    steps.timers(&world);
    while let Some(stage) = steps.ready().next() {
        steps.run(stage, 9, |_| 0, &world);
    }
    assert_eq!(processor.leaks(), []);
}

#[test]
fn two_processors_on_one_thread() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let woken = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let built = graph.build(2).into_iter().zip(&woken).map(|(builder, woken)| {
        let woken = woken.clone();
        builder.build(Box::new(move || _ = woken.fetch_add(1, Ordering::Relaxed)))
    });
    let processors: Vec<_> = built.collect();
    let [one, other] = [0, 1].map(|n| processors[n].stepping());
    let (world, answer) = (Bench::default(), Rc::new(Cell::new(0)));
    let result = answer.clone();
    processors[0].enter(|| {
        let caller =
            move |_| async move { result.set(stage.call_on(1, |_| async { 42 }).await.unwrap()) };
        stage.dispatch(caller).unwrap();
    });
    assert_eq!(other.sleep(), Some(u64::MAX));
    assert_eq!(one.run(0, 1, |_| 0, &world), 1);
    assert!(!one.is_idle() && processors[0].leaks().contains(&Leak::Outbox(1)));
    assert!(!other.has_messages() && !one.flush() && other.has_messages());
    assert_eq!(woken[1].load(Ordering::Relaxed), 1);
    let waiting = Leak::Invocations { stage: "stage", count: 1 };
    assert_eq!(processors[1].leaks(), [waiting]);
    other.wake();
    assert!(other.receive(&world) && other.run(0, 9, |_| 0, &world) == 1 && !other.flush());
    assert_eq!(processors[0].leaks().last(), Some(&Leak::Replies(1)));
    assert!(one.receive(&world) && one.run(0, 9, |_| 0, &world) == 1);
    assert_eq!(answer.get(), 42);
    processors[0].control().drain();
    assert!(
        !one.end_turn() && other.end_turn() && one.end_turn(),
        "over when both have nothing left"
    );
}

#[test]
fn a_sleep_without_an_end_arms_no_timer() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    world.now.set(1);
    let left = Rc::new(Cell::new(Some(Duration::ZERO)));
    processor.enter(|| {
        for duration in [Duration::MAX, Duration::from_nanos(u64::MAX)] {
            stage.dispatch(move |_| sleep(duration)).unwrap();
        }
        let left = left.clone();
        stage
            .dispatch(move |_| async move {
                let session = Session::new();
                session.set_deadline(Duration::MAX);
                left.set(session.time_left());
            })
            .unwrap();
        while processor.turn(&world).ran > 0 {}
    });
    assert_eq!(left.get(), None, "no deadline");
    assert_eq!((processor.timers(), processor.live()), (0, 2));
    assert_eq!(processor.stepping().sleep(), Some(u64::MAX));
    processor.stepping().wake();
}
