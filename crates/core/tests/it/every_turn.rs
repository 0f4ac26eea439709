//! Partitions that move and operations that are balanced, in every order of the processors' turns up to a length. No
//! operation is lost or runs twice, and operations run in order where the documentation promises it. A turn is too
//! large for a loom model; the atomic types that it uses have separate models.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::common::Program;
use phalanx_core::{Graph, MoveError};

const PROCESSORS: usize = 3;

/// A turn, or an event between turns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Turn(usize),
    /// Processor 2 invokes the next of its two operations on the partition.
    Call,
    /// The partition moves from processor 0 to 1.
    Move,
}

/// Calls `each` with all sequences of `turns` turns, `calls` calls and `moves` moves.
fn every(
    path: &mut Vec<Step>,
    turns: usize,
    calls: usize,
    moves: usize,
    each: &mut impl FnMut(&[Step]),
) {
    if turns + calls + moves == 0 {
        return each(path);
    }
    let mut with = |step, turns, calls, moves| {
        path.push(step);
        every(path, turns, calls, moves, each);
        path.pop();
    };
    if turns > 0 {
        (0..PROCESSORS).for_each(|at| with(Step::Turn(at), turns - 1, calls, moves));
    }
    if calls > 0 {
        with(Step::Call, turns, calls - 1, moves);
    }
    if moves > 0 {
        with(Step::Move, turns, calls, moves - 1);
    }
}

/// Runs a sequence, and then the program to its end. Returns the order in which the operations ran.
fn run(steps: &[Step]) -> Vec<usize> {
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let ran = Arc::new(Mutex::new(Vec::new()));
    let log = ran.clone();
    let table = graph.stage("table").partitions(1).partitioned(move |_| log.clone());
    let program = Program::new(graph, PROCESSORS);
    let (answers, moved) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
    let mut calls = 0;
    for step in steps {
        match step {
            Step::Turn(at) => _ = program.turn(*at),
            Step::Call => program.processors[2].enter(|| {
                let (id, answers) = (calls, answers.clone());
                calls += 1;
                let call = table.call(0, move |state| async move {
                    state.with(|state| state.lock().unwrap().push(id));
                    id
                });
                let caller = main.dispatch(move |_| async move {
                    let answer = call.await;
                    answers.borrow_mut().push(answer.unwrap());
                });
                caller.unwrap();
            }),
            Step::Move => program.processors[0].enter(|| {
                let moved = moved.clone();
                let moves = main.dispatch(move |_| async move {
                    let outcome = table.move_partition(0, 1).await;
                    moved.borrow_mut().push(outcome);
                });
                moves.unwrap();
            }),
        }
    }
    program.settle(0);
    assert_eq!(program.live(), [0; PROCESSORS], "{steps:?}");
    let moves = steps.iter().filter(|step| **step == Step::Move).count();
    assert_eq!(*moved.borrow(), vec![Ok::<(), MoveError>(()); moves], "{steps:?}");
    let mut answers = answers.take();
    answers.sort_unstable();
    assert!(answers.into_iter().eq(0..calls), "each is answered once: {steps:?}");
    std::mem::take(&mut *ran.lock().unwrap())
}

#[test]
fn a_move_loses_nothing_but_may_change_the_order() {
    let (mut in_order, mut reordered, mut first) = (0, 0, None);
    every(&mut Vec::new(), 4, 2, 1, &mut |steps| match run(steps)[..] {
        [0, 1] => in_order += 1,
        [1, 0] => {
            reordered += 1;
            first.get_or_insert(steps.to_vec());
        }
        ref other => panic!("{other:?} ran: {steps:?}"),
    });
    // The page on moving partitions says so, and why.
    assert!(
        in_order > 0 && reordered > 0,
        "{in_order} in order, {reordered} not, at first {first:?}"
    );
}

#[test]
fn without_a_move_the_order_is_kept() {
    every(&mut Vec::new(), 4, 2, 0, &mut |steps| assert_eq!(run(steps), [0, 1], "{steps:?}"));
}

#[test]
fn balanced_operations_run_once_and_in_order_on_each() {
    const EACH: usize = 7;
    let mut stolen = 0;
    every(&mut Vec::new(), 6, 0, 0, &mut |steps| {
        let mut graph = Graph::new();
        let current = Arc::new(AtomicUsize::new(0));
        let ran = Arc::new(Mutex::new(Vec::new()));
        let work = graph.stage("work").max_cohort(2).balanced((current.clone(), ran.clone()));
        let program = Program::new(graph, PROCESSORS);
        for from in 0..2 {
            program.processors[from].enter(|| {
                for n in 0..EACH * (2 - from) {
                    let dispatched = work.dispatch(move |state| async move {
                        let (current, ran) = &*state;
                        ran.lock().unwrap().push((current.load(Relaxed), from, n));
                    });
                    dispatched.unwrap();
                }
            });
        }
        let turn = |at: usize| {
            current.store(at, Relaxed);
            program.turn(at)
        };
        for step in steps {
            let Step::Turn(at) = step else { unreachable!("turns only") };
            turn(*at);
        }
        for _ in 0..8 {
            (0..PROCESSORS).for_each(|at| _ = turn(at));
        }
        assert_eq!(program.live(), [0; PROCESSORS], "{steps:?}");
        let mut ran = ran.lock().unwrap().clone();
        for at in 0..PROCESSORS {
            for from in 0..2 {
                let here = ran.iter().filter(|(on, of, _)| (*on, *of) == (at, from));
                assert!(here.is_sorted_by_key(|(.., n)| *n), "on {at}: {ran:?}, {steps:?}");
            }
        }
        stolen += ran.iter().filter(|(on, from, _)| on != from).count();
        ran.sort_unstable_by_key(|(_, from, n)| (*from, *n));
        let all = (0..2).flat_map(|from| (0..EACH * (2 - from)).map(move |n| (from, n)));
        assert!(ran.iter().map(|(_, from, n)| (*from, *n)).eq(all), "each once: {steps:?}");
    });
    assert!(stolen > 0, "some ran where they were not invoked");
}
