//! Local and remote operations do not starve each other, whether the count or the time ends cohorts.

use std::cell::Cell;
use std::rc::Rc;

use crate::common::Program;
use phalanx_core::{Cohort, Graph, SharedStage};

/// Enough turns for a cohort in each direction, where every other cohort is for the envelopes.
const TURNS: usize = 4;

/// A stage of processor 0 always has `backlog` operations, which take `ns` nanoseconds each.
fn endless(
    program: &'static Program,
    stage: SharedStage<()>,
    backlog: usize,
    ns: u64,
) -> Rc<Cell<u32>> {
    fn redispatch(program: &'static Program, stage: SharedStage<()>, ran: Rc<Cell<u32>>, ns: u64) {
        let operation = stage.dispatch(move |_| async move {
            program.world.now.set(program.world.now.get() + ns);
            ran.set(ran.get() + 1);
            redispatch(program, stage, ran, ns);
        });
        operation.unwrap();
    }
    let ran = Rc::new(Cell::new(0));
    program.processors[0].enter(|| {
        (0..backlog).for_each(|_| redispatch(program, stage, ran.clone(), ns));
    });
    ran
}

fn program(graph: Graph) -> &'static Program {
    Box::leak(Box::new(Program::new(graph, 2)))
}

fn remote_operations_run(graph: Graph, stage: SharedStage<()>, backlog: usize, ns: u64) {
    let program = program(graph);
    let ran = endless(program, stage, backlog, ns);
    let sent: Vec<_> = program.processors[1]
        .enter(|| (0..3).map(|n| stage.call_on(0, move |_| async move { n })).collect());
    program.turn(1);
    (0..TURNS).for_each(|_| _ = program.turn(0));
    let started = program.processors[0].control().profile().processors[0].stages[0].started.count;
    assert_eq!(started - u64::from(ran.get()), 3, "what was sent has run");
    assert!(ran.get() > 3, "and what is here as well: {ran:?}");
    program.processors[1].enter(|| drop(sent));
}

#[test]
fn remote_operations_run_when_the_count_ends_cohorts() {
    let mut graph = Graph::new();
    let stage = graph.stage("busy").max_cohort(4).shared(());
    remote_operations_run(graph, stage, 12, 0);
}

#[test]
fn remote_operations_run_when_the_time_ends_cohorts() {
    let mut graph = Graph::new();
    let stage = graph.shared("busy", ());
    remote_operations_run(graph, stage, 50, 100_000);
}

/// The queue is full of local operations; envelopes are not rejected for that.
#[test]
fn remote_operations_run_when_the_queue_is_full() {
    let mut graph = Graph::new();
    let stage = graph.stage("busy").max_cohort(4).capacity(12).shared(());
    remote_operations_run(graph, stage, 12, 0);
}

#[test]
fn remote_items_are_in_cohorts_of_a_handler() {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let collector = graph.stage("gather").max_cohort(4).cohort(
        |_| (),
        |(), cohort: &mut Cohort<bool, ()>| cohort.iter_mut().for_each(|entry| entry.reply(())),
    );
    let program = program(graph);
    let sent = program.processors[1].enter(|| collector.call_on(0, true));
    program.turn(1);
    for _ in 0..TURNS {
        program.processors[0].enter(|| (0..20).for_each(|_| collector.dispatch(false).unwrap()));
        program.turn(0);
    }
    let answered = Rc::new(Cell::new(false));
    let out = answered.clone();
    program.processors[1].enter(|| {
        main.dispatch(move |_| async move { out.set(sent.await.is_ok()) }).unwrap();
    });
    program.turn(1);
    assert!(answered.get());
}

/// A flood of envelopes does not starve local operations either.
#[test]
fn local_operations_run_while_remote_ones_arrive() {
    let mut graph = Graph::new();
    let stage = graph.stage("busy").max_cohort(4).shared(());
    let program = program(graph);
    let ran = Rc::new(Cell::new(0));
    program.processors[0].enter(|| {
        for _ in 0..3 {
            let ran = ran.clone();
            stage.dispatch(move |_| async move { ran.set(ran.get() + 1) }).unwrap();
        }
    });
    for _ in 0..TURNS {
        program.processors[1].enter(|| {
            (0..20).for_each(|_| stage.call_on(0, |_| async {}).detach().unwrap());
        });
        program.turn(1);
        program.turn(0);
    }
    assert_eq!(ran.get(), 3);
}
