//! User-defined policies: placement of operations, their state, and a gate.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::common::Program;
use phalanx_core::{Gate, Graph, Policy};

/// By processor's number; cohorts run only while a flag is up.
struct AccessChecked {
    up: Arc<AtomicBool>,
    active: Arc<AtomicUsize>,
}

struct PartitionState {
    number: usize,
    up: Arc<AtomicBool>,
    active: Arc<AtomicUsize>,
}

impl Gate for PartitionState {
    fn enter(&self) -> bool {
        let up = self.up.load(Relaxed);
        self.active.fetch_add(up.into(), Relaxed);
        up
    }

    fn leave(&self) {
        self.active.fetch_sub(1, Relaxed);
    }
}

impl Policy for AccessChecked {
    type Key = usize;
    type Local = PartitionState;
    type Access = (usize, usize, Rc<PartitionState>);

    fn local(&self, number: usize, _: usize) -> PartitionState {
        PartitionState { number, up: self.up.clone(), active: self.active.clone() }
    }

    fn place(&self, key: &usize, here: usize, processors: usize) -> usize {
        (here + key) % processors
    }

    fn gate(local: &Rc<PartitionState>) -> Option<Rc<dyn Gate>> {
        Some(local.clone())
    }

    fn access(local: &Rc<PartitionState>, key: usize) -> Self::Access {
        (local.number, key, local.clone())
    }
}

#[test]
fn a_users_policy_places_gates_and_gives_access() {
    let (up, active) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let stage =
        graph.stage("mine").policy(AccessChecked { up: up.clone(), active: active.clone() });
    let program = Program::new(graph, 3);
    let right = Rc::new(Cell::new(0));
    program.processors[1].enter(|| {
        for distance in 0..3 {
            let right = right.clone();
            let caller = main.dispatch(move |_| async move {
                let call = stage.call(distance, |(at, key, state)| async move {
                    assert_eq!(state.active.load(Relaxed), 1, "inside of the gate");
                    (at, key)
                });
                assert_eq!(call.await.unwrap(), ((1 + distance) % 3, distance));
                right.set(right.get() + 1);
            });
            caller.unwrap();
        }
    });
    for turn in 0..30 {
        program.turn(turn);
    }
    assert_eq!(right.get(), 0, "the gate is shut");
    up.store(true, Relaxed);
    program.settle(3);
    assert_eq!((right.get(), active.load(Relaxed)), (3, 0));
}
