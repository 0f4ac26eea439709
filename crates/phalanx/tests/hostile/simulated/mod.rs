//! Handles on other processors than their own, in simulation. All processors share a thread there, so handles
//! that are not `Send` can be moved as well.

mod handles;
mod passed;
mod payloads;
mod streams;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::Listener;
use phalanx::sim::{self, Faults, Net};
use phalanx::{Graph, SharedStage, sleep};

use crate::harness::poll_once;

/// Number of seeds of each test.
const SEEDS: u64 = if cfg!(miri) { 3 } else { 100 };

/// Listening address of the processor with this number.
fn address(processor: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 1 + processor as u16))
}

/// The stage, and the processor's listener.
#[derive(Clone)]
struct LocalProgram {
    stage: SharedStage<()>,
    listener: Rc<Listener>,
}

/// Runs `on_0` on processor 0, and then `on_1` on processor 1 with the output of `on_0`. Fails if either
/// processor leaks.
fn two<T: 'static, Fut0, Fut1>(
    stage: impl Fn(&mut Graph) -> SharedStage<()>,
    on_0: impl Fn(LocalProgram) -> Fut0 + Copy + 'static,
    on_1: impl Fn(LocalProgram, T) -> Fut1 + Copy + 'static,
    client: impl AsyncFn(Net) + Copy + 'static,
) where
    Fut0: Future<Output = T> + 'static,
    Fut1: Future<Output = ()> + 'static,
{
    sim::explore(SEEDS, |world| {
        world.set_processors(2);
        world.set_faults(Faults::NONE);
        let mut graph = Graph::new();
        let stage = stage(&mut graph);
        let listeners = [0, 1].map(|at| world.listen(address(at)));
        let between = Rc::new(RefCell::new(None));
        let done = Rc::new(Cell::new(0));
        let ended = done.clone();
        world.program(graph, move |start| {
            let listener = listeners[start.processor()].listener(start)?;
            let here = LocalProgram { stage, listener: Rc::new(listener) };
            let (between, done) = (between.clone(), done.clone());
            match start.processor() {
                0 => stage.dispatch(move |_| async move {
                    let value = on_0(here).await;
                    *between.borrow_mut() = Some(value);
                    done.set(done.get() + 1);
                })?,
                _ => stage.dispatch(move |_| async move {
                    let value = loop {
                        match between.take() {
                            Some(value) => break value,
                            None => sleep(Duration::from_millis(1)).await,
                        }
                    };
                    on_1(here, value).await;
                    done.set(done.get() + 1);
                })?,
            }
            Ok(())
        });
        let net = world.net();
        world.client(async move {
            client(net.clone()).await;
            // A panic in an operation is caught, so a result would be missing.
            for _ in 0..10_000 {
                if ended.get() == 2 {
                    return;
                }
                net.sleep(Duration::from_millis(10)).await;
            }
            panic!("an operation has panicked, or waits");
        });
    });
}

fn plain(graph: &mut Graph) -> SharedStage<()> {
    graph.shared("stage", ())
}

async fn no_client(_: Net) {}

async fn polled_once<F: Future + Unpin>(mut future: F) -> F {
    assert!(poll_once(&mut future).await.is_pending());
    future
}

async fn later() -> u32 {
    sleep(Duration::from_millis(200)).await;
    7
}

fn panics(f: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).expect("a text")
}

const WRONG_PROCESSOR: &str = "on a processor other than the one that created it";

#[test]
fn a_simulation_within_a_client_is_refused() {
    let world_of = |world: &mut sim::World| {
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        world.program(graph, move |_| {
            stage.dispatch(|_| async {
                assert!(
                    panics(|| _ = sim::run(1, |_| ()))
                        .contains("on a thread that runs a processor")
                );
            })?;
            Ok(())
        });
        world.client(async {
            assert!(
                panics(|| _ = sim::run(1, |_| ())).contains("on a thread that runs a processor")
            );
        });
    };
    sim::run(1, world_of);
    // After a failed simulation the thread is usable again.
    let failed = catch_unwind(|| {
        sim::run(1, |world| {
            world.program(Graph::new(), |_| panic!("hostile start"));
        })
    });
    assert!(failed.is_err());
    sim::run(1, world_of);
}
