//! A simulated journal, for tests of a partition or of the router without a broker.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use phalanx::sim::{self, World};
use phalanx::{Graph, SharedStage};
use phalanx_store::{Options, Store};

use crate::durable::Wal;
use crate::durable::disk_timeout::DISK_TIMEOUT;

/// Declares an empty journal of up to `max_live_bytes` bytes, and the stage of the operations that use it.
pub(crate) fn declare_journal(
    world: &World,
    graph: &mut Graph,
    max_live_bytes: u64,
) -> (Wal, SharedStage<()>) {
    let options = Options { salt: Some(world.seed()), ..Options::default() };
    let files = BTreeMap::<String, Vec<u8>>::new();
    let (store, _) = Store::open_in(&files, world.root(), Path::new("/"), options).unwrap();
    let (journal, stage) = (store.declare(graph), graph.shared("test", ()));
    (Wal::new(journal, stage, (max_live_bytes, DISK_TIMEOUT), 1), stage)
}

/// Runs a test in an operation of the first processor, with an empty journal. Returns its result.
pub(crate) fn with_journal<T: 'static, F: Future<Output = T> + 'static>(
    seed: u64,
    test: impl FnOnce(Wal) -> F + 'static,
) -> T {
    let result = Rc::new(RefCell::new(None));
    let of_world = result.clone();
    sim::run(seed, move |world| {
        let mut graph = Graph::new();
        let (wal, stage) = declare_journal(world, &mut graph, u64::MAX);
        let test = Cell::new(Some(test));
        world.program(graph, move |start| {
            if start.processor() == 0
                && let Some(test) = test.take()
            {
                let (wal, result) = (wal.clone(), of_world.clone());
                stage.dispatch(move |_| async move {
                    result.replace(Some(test(wal).await));
                })?;
            }
            Ok(())
        });
    });
    result.take().expect("the test ends")
}
