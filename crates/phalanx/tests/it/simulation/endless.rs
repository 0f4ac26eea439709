//! Waits without an end: a simulation reports the operation, instead of advancing its clock by centuries.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use phalanx::sim::{self, World};
use phalanx::{Graph, sleep};

/// The failure of a run with one operation on one processor.
fn failure<F: Future<Output = ()> + 'static>(operation: impl Fn() -> F + Copy + 'static) -> String {
    let build = |world: &mut World| {
        world.set_processors(1);
        let mut graph = Graph::new();
        let stage = graph.shared("endless", ());
        world.program(graph, move |_| Ok(stage.dispatch(move |_| operation())?));
    };
    let failed = catch_unwind(AssertUnwindSafe(|| sim::run(1, build))).expect_err("it is stuck");
    failed.downcast_ref::<String>().cloned().expect("a text")
}

#[test]
fn an_operation_that_sleeps_forever_is_stuck() {
    for duration in [Duration::MAX, Duration::from_nanos(u64::MAX)] {
        let text = failure(move || sleep(duration));
        assert!(text.contains("stuck") && text.contains("endless"), "{text}");
    }
}

#[test]
fn a_client_that_sleeps_forever_is_stuck() {
    let build = |world: &mut World| {
        world.program(Graph::new(), |_| Ok(()));
        let net = world.net();
        world.client(async move { net.sleep(Duration::MAX).await });
    };
    let failed = catch_unwind(AssertUnwindSafe(|| sim::run(1, build))).expect_err("it is stuck");
    let text = failed.downcast_ref::<String>().expect("a text");
    assert!(text.contains("stuck") && text.contains("1 clients wait"), "{text}");
}
