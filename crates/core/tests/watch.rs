//! What a processor runs, seen from another thread.

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{Bench, alone, run, settle};
use phalanx_core::{Graph, Running};

async fn a_long_one() {
    LOOKED.wait();
    SEEN.wait();
}

static LOOKED: Barrier = Barrier::new(2);
static SEEN: Barrier = Barrier::new(2);

#[test]
fn a_stuck_operation_is_named() {
    let mut graph = Graph::new();
    let work = graph.shared("work", ());
    let (tell, told) = std::sync::mpsc::channel();
    run(graph, 1, |_, control| {
        let tell = tell.clone();
        std::thread::spawn(move || {
            LOOKED.wait();
            let first = control.running();
            let again = control.running();
            let Some(Running { stage, operation, cohort, .. }) = first[0] else {
                panic!("it runs a cohort")
            };
            let stuck = again[0].is_some_and(|again| again.cohort == cohort);
            SEEN.wait();
            control.drain();
            tell.send((stage, operation, stuck)).unwrap();
        });
        work.dispatch(|_| a_long_one()).unwrap();
    });
    assert_eq!(told.recv(), Ok(("work", Some("watch::a_long_one"), true)));
}

#[test]
fn an_operation_from_another_processor_has_its_own_name() {
    static NAMED: AtomicBool = AtomicBool::new(false);
    async fn guest(control: phalanx_core::Control) {
        let running = control.running()[1].unwrap();
        NAMED.store(running.operation.unwrap().ends_with("::guest"), Ordering::Relaxed);
        control.drain();
    }
    let mut graph = Graph::new();
    let work = graph.shared("work", ());
    run(graph, 2, |index, control| {
        if index == 0 {
            work.call_on(1, move |_| guest(control)).detach().unwrap();
        }
    });
    assert!(NAMED.load(Ordering::Relaxed));
}

#[test]
fn cohorts_are_told_apart_and_idleness_is_seen() {
    static COHORTS: AtomicU64 = AtomicU64::new(0);
    let mut graph = Graph::new();
    let work = graph.shared("work", ());
    let (processor, world) = (alone(graph), Bench::default());
    let control = processor.control();
    assert_eq!(control.running(), [None]);
    for expected in [1, 2] {
        let control = control.clone();
        settle(&processor, &world, || {
            work.dispatch(move |_| async move {
                COHORTS.store(control.running()[0].unwrap().cohort, Ordering::Relaxed);
            })
            .unwrap();
        });
        assert_eq!(COHORTS.load(Ordering::Relaxed), expected);
    }
    assert_eq!(control.running(), [None]);
}
