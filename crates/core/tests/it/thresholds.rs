//! Thresholds and hold policy: stages that run before or after their turn.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::common::{Bench, single_processor};
use phalanx_core::{Graph, Processor, Session, SharedStage, prefetch, yield_now};

const MICRO: u64 = 1_000;

#[derive(Clone, Default)]
struct Log(Rc<RefCell<String>>);

impl Log {
    fn add(&self, letter: char) {
        self.0.borrow_mut().push(letter);
    }

    fn take(&self) -> String {
        self.0.take()
    }
}

fn post(log: &Log, letter: char, stage: SharedStage<()>) {
    let log = log.clone();
    stage.dispatch(move |_| async move { log.add(letter) }).unwrap();
}

fn settle(processor: &Processor, world: &Bench) {
    processor.enter(|| while processor.turn(world).ran > 0 {});
    assert_eq!(processor.live(), 0);
}

#[test]
fn a_long_queue_interrupts_and_the_interrupted_stage_resumes() {
    let mut graph = Graph::new();
    let near = graph.shared("near", ());
    let far = graph.stage("far").threshold(3, None).shared(());
    let (processor, world, log) = (single_processor(graph), Bench::default(), Log::default());
    processor.enter(|| {
        for _ in 0..7 {
            let log = log.clone();
            near.dispatch(move |_| async move {
                log.add('n');
                post(&log, 'f', far);
            })
            .unwrap();
        }
    });
    settle(&processor, &world);
    assert_eq!(log.take(), "nnnfffnnnfffnf");
    let profile = processor.control().profile();
    let stages = &profile.processors[0].stages;
    assert_eq!((stages[0].cohorts, stages[1].cohorts, stages[1].preemptions), (1, 3, 2));
    assert_eq!(profile.processors[0].arcs[0], [0, 7], "the row is put back");
}

#[test]
fn an_interruption_resumes_only_its_own_prefetches() {
    let mut graph = Graph::new();
    let near = graph.shared("near", ());
    let far = graph.stage("far").threshold(3, None).shared(());
    let (processor, world, log) = (single_processor(graph), Bench::default(), Log::default());
    processor.enter(|| {
        for _ in 0..4 {
            let log = log.clone();
            near.dispatch(move |_| async move {
                log.add('n');
                let inner = log.clone();
                far.dispatch(move |_| async move {
                    inner.add('f');
                    prefetch(&inner).await;
                    inner.add('g');
                })
                .unwrap();
                prefetch(&log).await;
                log.add('m');
            })
            .unwrap();
        }
    });
    settle(&processor, &world);
    // The last operation of `far` is alone, and waits for no other.
    assert_eq!(log.take(), "nnnfffgggnmmmmfg");
}

#[test]
fn an_interrupting_stage_is_not_interrupted() {
    let mut graph = Graph::new();
    let near = graph.shared("near", ());
    let a = graph.stage("a").threshold(2, None).shared(());
    let b = graph.stage("b").threshold(2, None).shared(());
    let (processor, world, log) = (single_processor(graph), Bench::default(), Log::default());
    processor.enter(|| {
        for _ in 0..4 {
            let log = log.clone();
            near.dispatch(move |_| async move {
                log.add('n');
                let inner = log.clone();
                a.dispatch(move |_| async move {
                    inner.add('a');
                    post(&inner, 'b', b);
                    post(&inner, 'b', b);
                })
                .unwrap();
            })
            .unwrap();
        }
    });
    settle(&processor, &world);
    // Both operations of `a` run before `b`, which is overdue after the first; `b` waits for an operation of `near`.
    assert_eq!(&log.take()[..9], "nnaanbbbb");
}

#[test]
fn age_interrupts_and_its_time_is_not_the_others() {
    let mut graph = Graph::new();
    let near = graph.stage("near").cohort_time(Duration::from_millis(1)).shared(());
    let far = graph.stage("far").threshold(None, Duration::from_micros(250)).shared(());
    let (processor, world, log) =
        (single_processor(graph), Rc::new(Bench::default()), Log::default());
    processor.enter(|| {
        for n in 0..9 {
            let (log, world) = (log.clone(), world.clone());
            near.dispatch(move |_| async move {
                world.now.set(world.now.get() + 100 * MICRO);
                log.add('n');
                if n == 1 {
                    let inner = log.clone();
                    let slow = move |_| async move {
                        world.now.set(world.now.get() + 5_000 * MICRO);
                        inner.add('f');
                    };
                    far.dispatch(slow).unwrap();
                }
            })
            .unwrap();
        }
    });
    settle(&processor, &world);
    // The second operation queued it. That operation's own time does not count, because the clock was read before it.
    assert_eq!(log.take(), "nnnnfnnnnn");
    let profile = processor.control().profile();
    let stages = &profile.processors[0].stages;
    assert_eq!(stages[0].completed.total_ns, 900 * MICRO);
    assert_eq!(stages[1].completed.total_ns, 5_000 * MICRO);
    assert_eq!(stages[0].cohorts, 1, "nor does it end the cohort's time");
    assert_eq!(profile.processors[0].busy_ns, 5_900 * MICRO);
}

#[test]
fn operations_from_other_processors_count() {
    let mut graph = Graph::new();
    let near = graph.shared("near", ());
    let many = graph.stage("many").threshold(3, None).shared(());
    let old = graph.stage("old").threshold(None, Duration::from_micros(150)).shared(());
    let [one, two] = &graph
        .build(2)
        .into_iter()
        .map(|builder| builder.build(Box::new(|| ())))
        .collect::<Vec<_>>()[..]
    else {
        panic!("two processors")
    };
    let (world, log) = (Rc::new(Bench::default()), Log::default());
    let send = |stage: SharedStage<()>, count| {
        one.enter(|| {
            for _ in 0..count {
                drop(stage.call_on(1, |_| async {}));
            }
            one.turn(&*world);
        });
    };
    let work = || {
        for _ in 0..5 {
            let (log, world, control) = (log.clone(), world.clone(), two.control());
            near.dispatch(move |_| async move {
                let view = control.profile().processors.remove(1);
                let ran = view.stages[1].started.count + view.stages[2].started.count;
                log.add(char::from_digit(ran as u32, 10).unwrap());
                world.now.set(world.now.get() + 100 * MICRO);
            })
            .unwrap();
        }
        while two.turn(&*world).ran > 0 {}
    };
    send(many, 3);
    two.enter(work);
    assert_eq!(log.take(), "03333");
    send(old, 1);
    two.enter(work);
    // The wait is noticed after the first operation, and is long enough 200 µs later.
    assert_eq!(log.take(), "33344");
}

#[test]
fn an_interruption_is_of_no_session_and_its_panic_of_no_harm() {
    let mut graph = Graph::new();
    let near = graph.shared("near", ());
    let far = graph.stage("far").threshold(1, None).shared(());
    let (processor, world, log) = (single_processor(graph), Bench::default(), Log::default());
    processor.enter(|| {
        let session = Session::new();
        for _ in 0..3 {
            let log = log.clone();
            let outer = move |_| async move {
                let inner = log.clone();
                let call = far.call(move |_| async move {
                    inner.add(if Session::current().is_some() { 's' } else { '-' });
                    panic!("contained");
                });
                let failed: Result<(), _> = call.await;
                log.add(if Session::current().is_some() && failed.is_err() { 'S' } else { '?' });
            };
            session.scope(|| near.dispatch(outer)).unwrap();
        }
        let outside = log.clone();
        far.dispatch(move |_| async move {
            outside.add(if Session::current().is_some() { 's' } else { '-' });
        })
        .unwrap();
    });
    settle(&processor, &world);
    // Calls belong to their caller's session, and the call from outside belongs to none. Each interrupts immediately,
    // and its caller continues behind the others.
    assert_eq!(log.take(), "-sssSSS");
}

fn held(count: usize, micros: u64) -> (Processor, SharedStage<()>, SharedStage<()>) {
    let mut graph = Graph::new();
    let busy = graph.stage("busy").max_cohort(1).shared(());
    let filling = graph.stage("filling").hold(count, Duration::from_micros(micros)).shared(());
    (single_processor(graph), busy, filling)
}

/// Continues for `turns` sweeps, two per turn.
fn keep_busy(busy: SharedStage<()>, turns: usize) {
    busy.dispatch(move |_| async move {
        for _ in 0..turns {
            yield_now().await;
        }
    })
    .unwrap();
}

#[test]
fn a_held_stage_waits_for_its_count_or_its_time_while_others_run() {
    let (processor, busy, filling) = held(3, 500);
    let (world, log) = (Bench::default(), Log::default());
    processor.enter(|| {
        keep_busy(busy, 1000);
        let turn = || {
            processor.turn(&world);
            log.take()
        };
        post(&log, 'x', filling);
        assert_eq!((turn(), turn()), (String::new(), String::new()));
        post(&log, 'x', filling);
        assert_eq!(turn(), "");
        post(&log, 'x', filling);
        assert_eq!(turn(), "xxx", "three are a cohort");
        post(&log, 'y', filling);
        assert_eq!(turn(), "");
        world.now.set(world.now.get() + 499 * MICRO);
        assert_eq!(turn(), "");
        world.now.set(world.now.get() + MICRO);
        assert_eq!(turn(), "y", "its time is over");
    });
    let stage = &processor.control().profile().processors[0].stages[1];
    assert_eq!(stage.cohorts, 2);
    assert!(stage.hold_skips >= 5, "{}", stage.hold_skips);
}

#[test]
fn an_idle_processor_holds_nothing() {
    let (processor, busy, filling) = held(100, 1_000_000);
    let (world, log) = (Bench::default(), Log::default());
    processor.enter(|| {
        post(&log, 'x', filling);
        assert_eq!(processor.turn(&world).ran, 1);
        assert_eq!(log.take(), "x");
        keep_busy(busy, 1);
        post(&log, 'x', filling);
    });
    settle(&processor, &world);
    assert_eq!(log.take(), "x", "as soon as the other is done");
}

#[test]
fn a_threshold_goes_before_hold() {
    let mut graph = Graph::new();
    let near = graph.shared("near", ());
    let hold = graph.stage("far").hold(100, Duration::from_secs(1)).threshold(2, None);
    let far = hold.shared(());
    let (processor, world, log) = (single_processor(graph), Bench::default(), Log::default());
    processor.enter(|| {
        keep_busy(near, 3);
        post(&log, 'f', far);
        post(&log, 'f', far);
        processor.turn(&world);
    });
    assert_eq!(log.take(), "ff");
    settle(&processor, &world);
}

#[test]
fn held_work_is_done_before_the_program_ends() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static RAN: AtomicU32 = AtomicU32::new(0);
    let mut graph = Graph::new();
    let filling = graph.stage("filling").hold(1000, Duration::from_secs(3600)).shared(());
    crate::common::run(graph, 2, |_, control| {
        for _ in 0..5 {
            let count = |_| async {
                RAN.fetch_add(1, Ordering::Relaxed);
            };
            filling.dispatch(count).unwrap();
        }
        control.drain();
    });
    assert_eq!(RAN.load(Ordering::Relaxed), 10);
}

/// A stage that declares no cohort size gets one from its memory, and does not wait for more operations.
#[test]
fn a_stage_does_not_hold_for_more_than_a_cohort() {
    let mut graph = Graph::new();
    graph.cache_bytes(64 << 10);
    let busy = graph.shared("busy", ());
    let held = graph.stage("held").hold(200, Duration::from_secs(3600));
    let held = held.object::<[u8; 4096]>("object").shared(());
    let (processor, world) = (single_processor(graph), Bench::default());
    processor.enter(|| {
        let always = |_| async {
            loop {
                yield_now().await;
            }
        };
        busy.dispatch(always).unwrap();
        (0..16).for_each(|_| held.dispatch(|_| async {}).unwrap());
    });
    (0..3).for_each(|_| _ = processor.turn(&world));
    let stages = &processor.control().profile().processors[0].stages;
    assert_eq!((stages[1].completed.count, stages[1].cohorts), (16, 1));
}
