//! Looking for input before a sleep.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use phalanx_core::{Graph, Processor, World, sleep};

use crate::common::single_processor;

/// Virtual time. Records the calls: `r`eap and `p`ark.
#[derive(Default)]
struct Record {
    now: Cell<u64>,
    calls: RefCell<String>,
}

impl World for Record {
    fn now(&self) -> u64 {
        self.now.get()
    }

    fn reap(&self) -> bool {
        self.calls.borrow_mut().push('r');
        false
    }

    fn submit(&self) {}

    fn park(&self, timeout: Option<u64>) {
        self.calls.borrow_mut().push('p');
        self.now.set(self.now.get() + timeout.expect("a timer is armed"));
    }
}

/// The calls of a program that wakes seven times, on a processor with these stages.
fn calls(declare: impl FnOnce(&mut Graph)) -> String {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    declare(&mut graph);
    let (processor, world): (Processor, _) = (single_processor(graph), Record::default());
    processor.enter(|| {
        let control = processor.control();
        let wakes = async move {
            for _ in 0..7 {
                sleep(Duration::from_millis(5)).await;
            }
            control.drain();
        };
        stage.dispatch(move |_| wakes).unwrap();
    });
    processor.run(&world, 0);
    world.calls.take()
}

#[test]
fn after_looks_in_vain_a_processor_sleeps_at_once() {
    assert_eq!(calls(|_| ()), "rrprrprrprrprprprpr");
}

#[test]
fn a_processor_looks_for_operations_to_steal_before_it_sleeps() {
    let balanced = |graph: &mut Graph| _ = graph.stage("other").balanced(());
    assert_eq!(calls(balanced), "rrprrprrprrprrprrprrpr");
}

/// A world that waits for several completions, for a millisecond each time.
#[derive(Default)]
struct Coalescing {
    now: Cell<u64>,
    waited: Cell<u64>,
    parked: Cell<u64>,
}

impl Coalescing {
    fn pass(&self, time: u64, total: &Cell<u64>) {
        self.now.set(self.now.get() + time);
        total.set(total.get() + time);
    }
}

impl World for Coalescing {
    fn now(&self) -> u64 {
        self.now.get()
    }

    fn reap(&self) -> bool {
        false
    }

    fn submit(&self) {}

    fn park(&self, timeout: Option<u64>) {
        self.pass(timeout.expect("a timer is armed"), &self.parked);
    }

    fn coalesce(&self, _: Option<u64>) -> u64 {
        self.pass(1_000_000, &self.waited);
        1_000_000
    }
}

#[test]
fn waiting_for_completions_counts_as_sleep() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let (processor, world) = (single_processor(graph), Coalescing::default());
    let control = processor.control();
    let drains = control.clone();
    let operation = move |_| async move {
        for _ in 0..5 {
            sleep(Duration::from_millis(10)).await;
        }
        drains.drain();
    };
    processor.enter(|| stage.dispatch(operation)).unwrap();
    processor.run(&world, 0);
    let (waited, parked) = (world.waited.get(), world.parked.get());
    assert!(waited >= 5_000_000);
    assert_eq!(control.processor(0).parked_ns, waited + parked);
}

#[test]
fn a_sleeping_processor_is_entered_inside_itself() {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    let processor = single_processor(graph);
    assert!(processor.stepping().sleep().is_some());
    processor.enter(|| processor.enter(|| stage.dispatch(|_| async {}))).unwrap();
    processor.stepping().wake();
    assert_eq!(processor.turn(&Record::default()).ran, 1);
}
