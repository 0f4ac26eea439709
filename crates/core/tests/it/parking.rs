//! Looking for input before a sleep.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use phalanx_core::{Graph, Processor, World, sleep};

use crate::common::alone;

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
    let (processor, world): (Processor, _) = (alone(graph), Record::default());
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
