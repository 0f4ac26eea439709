//! User-defined policies: placement of operations, their state, and a gate.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::common::Several;
use phalanx_core::{Gate, Graph, Policy};

/// By processor's number; cohorts run only while a flag is up.
struct Flagged {
    up: Arc<AtomicBool>,
    inside: Arc<AtomicUsize>,
}

struct Mine {
    number: usize,
    up: Arc<AtomicBool>,
    inside: Arc<AtomicUsize>,
}

impl Gate for Mine {
    fn enter(&self) -> bool {
        let up = self.up.load(Relaxed);
        self.inside.fetch_add(up.into(), Relaxed);
        up
    }

    fn leave(&self) {
        self.inside.fetch_sub(1, Relaxed);
    }
}

impl Policy for Flagged {
    type Key = usize;
    type Local = Mine;
    type Access = (usize, usize, Rc<Mine>);

    fn local(&self, number: usize, _: usize) -> Mine {
        Mine { number, up: self.up.clone(), inside: self.inside.clone() }
    }

    fn place(&self, key: &usize, here: usize, processors: usize) -> usize {
        (here + key) % processors
    }

    fn gate(local: &Rc<Mine>) -> Option<Rc<dyn Gate>> {
        Some(local.clone())
    }

    fn access(local: &Rc<Mine>, key: usize) -> Self::Access {
        (local.number, key, local.clone())
    }
}

#[test]
fn a_users_policy_places_gates_and_gives_access() {
    let (up, inside) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut graph = Graph::new();
    let main = graph.shared("main", ());
    let stage = graph.stage("mine").policy(Flagged { up: up.clone(), inside: inside.clone() });
    let several = Several::new(graph, 3);
    let right = Rc::new(Cell::new(0));
    several.processors[1].enter(|| {
        for distance in 0..3 {
            let right = right.clone();
            let asking = main.dispatch(move |_| async move {
                let call = stage.call(distance, |(at, key, mine)| async move {
                    assert_eq!(mine.inside.load(Relaxed), 1, "inside of the gate");
                    (at, key)
                });
                assert_eq!(call.await.unwrap(), ((1 + distance) % 3, distance));
                right.set(right.get() + 1);
            });
            asking.unwrap();
        }
    });
    for turn in 0..30 {
        several.turn(turn);
    }
    assert_eq!(right.get(), 0, "the gate is shut");
    up.store(true, Relaxed);
    several.settle(3);
    assert_eq!((right.get(), inside.load(Relaxed)), (3, 0));
}
