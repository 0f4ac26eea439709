//! The cohort tuner, on a machine with simulated costs and a clock that advances with them.

use std::cell::Cell;
use std::rc::Rc;

use crate::common::single_processor;
use phalanx_core::{CohortTunerView, Graph, Processor, SharedStage, World};

/// A clock that simulated work advances.
#[derive(Clone, Default)]
struct Machine(Rc<Costs>);

#[derive(Default)]
struct Costs {
    now: Cell<u64>,
    /// The stage whose code is in the cache.
    cached: Cell<usize>,
    /// Nanoseconds to load the code of another stage.
    reload: Cell<u64>,
    /// The nanoseconds that other programs take after each cohort of more than 32, and the nanoseconds that they have
    /// taken so far.
    other_programs: Cell<u64>,
    stolen_ns: Cell<u64>,
}

impl Machine {
    /// Runs a stage's code.
    fn work(&self, stage: usize) {
        let reload = if self.0.cached.replace(stage) == stage { 0 } else { self.0.reload.get() };
        self.0.now.set(self.0.now.get() + 20 + reload);
    }
}

impl World for Machine {
    fn now(&self) -> u64 {
        self.0.now.get()
    }
    fn reap(&self) -> bool {
        false
    }
    fn submit(&self) {}
    fn park(&self, _timeout: Option<u64>) {}
    /// The overhead of the runtime itself.
    fn on_cohort(&self, _stage: &'static str, operations: usize, _ns: u64) {
        let stolen_ns = if operations > 32 { self.0.other_programs.get() } else { 0 };
        self.0.stolen_ns.set(self.0.stolen_ns.get() + stolen_ns);
        self.0.now.set(self.0.now.get() + 100 + 10 * operations as u64 + stolen_ns);
    }
    fn thread_cpu_time(&self) -> u64 {
        self.0.now.get() - self.0.stolen_ns.get()
    }
}

async fn connection(machine: Machine, stages: [SharedStage<()>; 4]) {
    loop {
        for (number, stage) in stages.iter().enumerate() {
            let machine = machine.clone();
            stage.call(move |_| async move { machine.work(number) }).await.unwrap();
        }
    }
}

/// 128 connections, each of which passes through four stages repeatedly.
fn start(machine: &Machine, bound: Option<usize>) -> Processor {
    let mut graph = Graph::new();
    graph.tune_cohorts(true);
    let mut stage = |name| match bound {
        Some(bound) => graph.stage(name).max_cohort(bound).shared(()),
        None => graph.shared(name, ()),
    };
    let connections = stage("connections");
    let stages = ["one", "two", "three", "four"].map(stage);
    let processor = single_processor(graph);
    processor.enter(|| {
        for _ in 0..128 {
            let machine = machine.clone();
            connections.dispatch(move |_| connection(machine, stages)).unwrap();
        }
    });
    processor
}

fn ladder(processor: &Processor) -> CohortTunerView {
    processor.control().processor(0).cohort_tuner
}

/// Turns the processor until this many trials are over.
fn turn_until(processor: &Processor, machine: &Machine, trials: u64) -> CohortTunerView {
    for _ in 0..1_000_000 {
        processor.turn(machine);
        let ladder = ladder(processor);
        if ladder.trials == trials && !ladder.trying {
            return ladder;
        }
    }
    panic!("no trial has ended: {:?}", ladder(processor));
}

#[test]
fn calls_of_stages_with_little_code_run_inside_their_callers() {
    let machine = Machine::default();
    let processor = start(&machine, None);
    let before = processor.control().processor(0);
    assert_eq!((before.cohort_tuner, before.stages[1].direct), (CohortTunerView::default(), 0));
    let ladder = turn_until(&processor, &machine, 1);
    assert_eq!((ladder.kept, ladder.rung), (1, 1), "{ladder:?}");
    let direct = |processor: &Processor| processor.control().processor(0).stages[1].direct;
    let count = direct(&processor);
    processor.turn(&machine);
    assert!(direct(&processor) > count);
}

#[test]
fn stages_with_much_code_get_large_cohorts() {
    let machine = Machine::default();
    machine.0.reload.set(1500);
    let processor = start(&machine, None);
    let ladder = turn_until(&processor, &machine, 1);
    assert!(ladder.kept >= 64, "{ladder:?}");
    let direct = ladder.costs_ps[0];
    assert!(direct > 10 * ladder.costs_ps[3], "{ladder:?}");
}

#[test]
fn time_that_the_machine_gives_to_others_does_not_count() {
    let machine = Machine::default();
    machine.0.reload.set(1500);
    machine.0.other_programs.set(1_000_000);
    let processor = start(&machine, None);
    let ladder = turn_until(&processor, &machine, 1);
    assert!(ladder.kept >= 64, "{ladder:?}");
}

#[test]
fn nothing_is_tried_where_the_graph_says_so() {
    let (machine, mut graph) = (Machine::default(), Graph::new());
    graph.tune_cohorts(false);
    let stages = ["one", "two", "three", "four"].map(|name| graph.shared(name, ()));
    let processor = single_processor(graph);
    processor.enter(|| {
        let dispatch = |_| {
            let machine = machine.clone();
            stages[0].dispatch(move |_| connection(machine, stages)).unwrap();
        };
        (0..128).for_each(dispatch);
    });
    for _ in 0..2_000 {
        processor.turn(&machine);
    }
    let view = processor.control().processor(0);
    let started: u64 = view.stages.iter().map(|stage| stage.started.count).sum();
    assert!(started > 50_000, "enough for a trial: {started}");
    assert_eq!((view.cohort_tuner, view.stages[2].direct), (CohortTunerView::default(), 0));
}

#[test]
fn the_cache_size_is_configured_or_detected() {
    let cache_bytes = |configured: Option<usize>, detected: usize| {
        let mut graph = Graph::new();
        configured.into_iter().for_each(|bytes| graph.cache_bytes(bytes));
        graph.measured_cache_bytes(detected);
        graph.build(1)[0].control().cache_bytes()
    };
    assert_eq!(cache_bytes(Some(4096), 1 << 19), 4096);
    assert_eq!((cache_bytes(None, 1 << 19), cache_bytes(None, 0)), (1 << 19, 1 << 20));
}

#[test]
fn declared_cohort_sizes_are_not_tuned() {
    let machine = Machine::default();
    let processor = start(&machine, Some(24));
    for _ in 0..2_000 {
        processor.turn(&machine);
    }
    let view = processor.control().processor(0);
    assert_eq!((view.cohort_tuner, view.stages[2].direct), (CohortTunerView::default(), 0));
    assert_eq!(view.stages[2].cohort_max, 24);
}
