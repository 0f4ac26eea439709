//! The current work of a processor, observed from another thread.

use std::cell::RefCell;
use std::future::{Ready, pending, ready};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::common::{Bench, run, settle, single_processor};
use phalanx_core::{Cohort, Control, Graph, Running, Session, World, sleep, yield_now};

async fn a_long_one() {
    STARTED.wait();
    OBSERVED.wait();
}

static STARTED: Barrier = Barrier::new(2);
static OBSERVED: Barrier = Barrier::new(2);

#[test]
fn a_stuck_operation_is_named() {
    let mut graph = Graph::new();
    let work = graph.shared("work", ());
    let (sender, receiver) = std::sync::mpsc::channel();
    run(graph, 1, |_, control| {
        let sender = sender.clone();
        std::thread::spawn(move || {
            STARTED.wait();
            let first: Vec<_> = control.running().collect();
            let second: Vec<_> = control.running().collect();
            let Some(Running { stage, operation, cohort, .. }) = first[0] else {
                panic!("it runs a cohort")
            };
            let is_same_cohort = second[0].is_some_and(|second| second.cohort == cohort);
            OBSERVED.wait();
            control.drain();
            sender.send((stage, operation, is_same_cohort)).unwrap();
        });
        work.dispatch(|_| a_long_one()).unwrap();
    });
    assert_eq!(receiver.recv(), Ok(("work", Some("it::watch::a_long_one"), true)));
}

#[test]
fn an_operation_from_another_processor_has_its_own_name() {
    static NAMED: AtomicBool = AtomicBool::new(false);
    async fn remote_operation(control: phalanx_core::Control) {
        let running = control.running().nth(1).unwrap().unwrap();
        NAMED.store(running.operation.unwrap().ends_with("::remote_operation"), Ordering::Relaxed);
        control.drain();
    }
    let mut graph = Graph::new();
    let work = graph.shared("work", ());
    run(graph, 2, |index, control| {
        if index == 0 {
            work.call_on(1, move |_| remote_operation(control)).detach().unwrap();
        }
    });
    assert!(NAMED.load(Ordering::Relaxed));
}

#[test]
fn cohorts_and_idleness_are_distinguished() {
    static COHORTS: AtomicU64 = AtomicU64::new(0);
    let mut graph = Graph::new();
    let work = graph.shared("work", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    let control = processor.control();
    assert!(control.running().eq([None]));
    for expected in [1, 2] {
        let control = control.clone();
        settle(&processor, &world, || {
            work.dispatch(move |_| async move {
                COHORTS.store(control.running().next().unwrap().unwrap().cohort, Ordering::Relaxed);
            })
            .unwrap();
        });
        assert_eq!(COHORTS.load(Ordering::Relaxed), expected);
    }
    assert!(control.running().eq([None]));
}

/// Records the line of the running operation when it is dropped.
struct ReportsLineOnDrop(Sender<u32>, Control);

impl Drop for ReportsLineOnDrop {
    fn drop(&mut self) {
        self.0.send(running_line(&self.1)).unwrap();
    }
}

#[test]
fn a_destructor_is_a_part_of_its_operation() {
    let mut graph = Graph::new();
    let work = graph.shared("work", ());
    let (processor, world) = (single_processor(graph), Bench::default());
    let control = processor.control();
    let (sender, lines) = channel();
    let reporter = || ReportsLineOnDrop(sender.clone(), control.clone());
    let (captured, returned_value, leaked) = (reporter(), reporter(), reporter());
    let line = line!();
    settle(&processor, &world, || {
        let call = work.call(move |_| async move { (captured, pending::<()>().await) });
        work.dispatch(move |_| async move {
            yield_now().await;
            call.cancel(); // drops the future
        })
        .unwrap();
        let returned = work.call(move |_| async move { returned_value });
        work.dispatch(move |_| async move {
            yield_now().await;
            drop(returned); // drops the result
        })
        .unwrap();
        work.dispatch(move |_| async move { (leaked, pending::<()>().await).1 }).unwrap();
    });
    assert_eq!(lines.try_iter().collect::<Vec<_>>(), [line + 2, line + 8]);
    assert!(control.running().eq([None]));
    drop(processor);
    assert_eq!(lines.try_iter().collect::<Vec<_>>(), [line + 14]);
    assert!(control.running().eq([None]));
}

/// The site of the running operation, as a line of this file.
fn running_line(control: &Control) -> u32 {
    let site = control.running().next().unwrap().unwrap().site.expect("an operation runs");
    assert!(site.file().ends_with("watch.rs"), "{site}");
    site.line()
}

/// An operation on any state that records the line of its invocation.
fn report_line<T>(
    sender: &Sender<u32>,
    control: &Control,
) -> impl FnOnce(T) -> Ready<()> + Send + 'static {
    let (sender, control) = (sender.clone(), control.clone());
    move |_| {
        sender.send(running_line(&control)).unwrap();
        ready(())
    }
}

#[test]
fn the_line_of_an_invocation_is_recorded_for_every_handle() {
    let mut graph = Graph::new();
    let (sender, lines) = channel();
    let shared = graph.shared("shared", ());
    let parts = graph.partitioned("parts", |_| ());
    let exclusive = graph.exclusive("exclusive", ());
    let balanced = graph.stage("balanced").balanced(());
    let affine = graph.stage("homed").cache_affinity(64).exclusive(());
    let item_sender = sender.clone();
    let items = graph.stage("items").max_cohort(1).cohort(
        |_| (),
        move |_, cohort: &mut Cohort<Control, ()>| {
            item_sender.send(running_line(&cohort[0].item)).unwrap();
        },
    );
    let (processor, world) = (single_processor(graph), Bench::default());
    let control = processor.control();
    let mut expected = Vec::new();
    settle(&processor, &world, || {
        let session = Session::new();
        #[rustfmt::skip]
        let invoked = [
            (line!(), drop(shared.call(report_line(&sender, &control)))),
            (line!(), drop(session.scope(|| shared.call(report_line(&sender, &control))))),
            (line!(), drop(shared.dispatch(report_line(&sender, &control)))),
            (line!(), drop(session.scope(|| shared.dispatch(report_line(&sender, &control))))),
            (line!(), drop(shared.call_on(0, report_line(&sender, &control)))),
            (line!(), drop(parts.call(7, report_line(&sender, &control)))),
            (line!(), drop(session.scope(|| parts.call(7, report_line(&sender, &control))))),
            (line!(), drop(parts.dispatch(7, report_line(&sender, &control)))),
            (line!(), drop(session.scope(|| parts.dispatch(7, report_line(&sender, &control))))),
            (line!(), drop(parts.call_partition(0, report_line(&sender, &control)))),
            (line!(), drop(exclusive.call(report_line(&sender, &control)))),
            (line!(), drop(session.scope(|| exclusive.call(report_line(&sender, &control))))),
            (line!(), drop(exclusive.dispatch(report_line(&sender, &control)))),
            (line!(), drop(session.scope(|| exclusive.dispatch(report_line(&sender, &control))))),
            (line!(), drop(balanced.call(report_line(&sender, &control)))),
            (line!(), drop(session.scope(|| balanced.call(report_line(&sender, &control))))),
            (line!(), drop(balanced.dispatch(report_line(&sender, &control)))),
            (line!(), drop(session.scope(|| balanced.dispatch(report_line(&sender, &control))))),
            (line!(), drop(affine.call(report_line(&sender, &control)))),
            (line!(), drop(session.scope(|| affine.call(report_line(&sender, &control))))),
            (line!(), drop(affine.dispatch(report_line(&sender, &control)))),
            (line!(), drop(session.scope(|| affine.dispatch(report_line(&sender, &control))))),
            (line!(), drop(items.call(control.clone()))),
            (line!(), drop(items.dispatch(control.clone()))),
            (line!(), drop(session.scope(|| items.dispatch(control.clone())))),
            (line!(), drop(items.call_on(0, control.clone()))),
        ];
        expected.extend(invoked.map(|(line, ())| line));
    });
    let mut seen: Vec<_> = lines.try_iter().collect();
    seen.sort_unstable();
    assert_eq!(seen, expected);
}

/// Reads, in the middle of each sleep of the processor, the time that it has slept.
struct ObservedWorld {
    bench: Bench,
    control: Control,
    parked: RefCell<Vec<u64>>,
}

impl World for ObservedWorld {
    fn now(&self) -> u64 {
        self.bench.now()
    }
    fn reap(&self) -> bool {
        self.bench.reap()
    }
    fn submit(&self) {}
    fn park(&self, timeout: Option<u64>) {
        let half = timeout.map(|timeout| timeout / 2);
        self.bench.park(half);
        self.parked.borrow_mut().push(self.control.parked(0, self.now()));
        self.bench.park(half);
    }
}

#[test]
fn the_time_asleep_includes_the_current_sleep() {
    let mut graph = Graph::new();
    let a = graph.shared("a", ());
    let processor = single_processor(graph);
    let (control, parked) = (processor.control(), RefCell::default());
    let world = ObservedWorld { bench: Bench::default(), control, parked };
    world.bench.now.set(1_000_000);
    processor.enter(|| {
        let control = processor.control();
        a.dispatch(move |_| async move {
            sleep(Duration::from_millis(4)).await;
            sleep(Duration::from_millis(6)).await;
            control.drain();
        })
        .unwrap();
    });
    processor.run(&world, 0);
    assert_eq!(*world.parked.borrow(), [2_000_000, 7_000_000]);
    assert_eq!(world.control.parked(0, world.now() + 50), 10_000_000, "it is awake");
}
