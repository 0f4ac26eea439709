//! Operations of one processor that the caller drives, without I/O.

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;

use phalanx_core::{Graph, Processor, SharedStage, World};

/// Operations queued together.
const COHORT: usize = 64;

/// Dispatches `count` operations.
pub(crate) fn dispatch(count: usize) {
    One::new(false).dispatch(count / COHORT);
}

/// Calls `count` operations, on a direct stage or not.
pub(crate) fn call(count: usize, direct: bool) {
    One::new(direct).call(count / COHORT);
}

/// A clock that advances by a fixed step per reading, and no I/O.
struct Steps(Cell<u64>);

impl World for Steps {
    fn now(&self) -> u64 {
        self.0.set(self.0.get() + 100);
        self.0.get()
    }
    fn reap(&self) -> bool {
        false
    }
    fn submit(&self) {}
    fn park(&self, _timeout: Option<u64>) {}
}

/// One processor, driven by the caller.
struct One {
    processor: Processor,
    world: Steps,
    front: SharedStage<()>,
    back: SharedStage<()>,
}

impl One {
    fn new(direct: bool) -> Self {
        let mut graph = Graph::new();
        let front = graph.stage("front").max_cohort(COHORT).shared(());
        let back = graph.stage("back").max_cohort(COHORT);
        let back = if direct { back.direct() } else { back }.shared(());
        let processor = graph.build(1).remove(0).build(Box::new(|| ()));
        Self { processor, world: Steps(Cell::new(0)), front, back }
    }

    fn dispatch(&self, cohorts: usize) {
        let sum = Rc::new(Cell::new(0_u64));
        self.processor.enter(|| {
            for _ in 0..cohorts {
                for n in 0..COHORT as u64 {
                    let sum = Rc::clone(&sum);
                    let taken = self.front.dispatch(move |_| {
                        sum.set(sum.get() + black_box(n));
                        std::future::ready(())
                    });
                    taken.expect("below the limit");
                }
                while self.processor.turn(&self.world).ran > 0 {}
            }
        });
        black_box(sum.get());
    }

    /// A cohort of parents, each calling and awaiting `each` children.
    fn call(&self, each: usize) {
        let sum = Rc::new(Cell::new(0_u64));
        self.processor.enter(|| {
            for _ in 0..COHORT {
                let (sum, back) = (Rc::clone(&sum), self.back);
                let parent = self.front.dispatch(move |_| async move {
                    for n in 0..each as u64 {
                        let n = black_box(n);
                        let child = back.call(move |_| async move { n });
                        sum.set(sum.get() + child.await.expect("no panic"));
                    }
                });
                parent.expect("below the limit");
            }
            while self.processor.turn(&self.world).ran > 0 {}
        });
        black_box(sum.get());
    }
}
