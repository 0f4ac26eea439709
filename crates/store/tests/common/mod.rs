//! Programs for tests, which end with what they are made for, however that ends.

use std::future::Future;
use std::sync::{Arc, Mutex};

use phalanx::{Graph, Runtime};

/// Runs `work` on the first of so many processors in a program of `graph`, and fails as it does.
pub(crate) fn run<F: Future<Output = ()> + 'static>(
    mut graph: Graph,
    processors: usize,
    work: impl Fn() -> F + Send + Sync + 'static,
) {
    let stage = graph.shared("test", ());
    let outcome = Arc::new(Mutex::new(None));
    let of_work = outcome.clone();
    let start = move |start: &phalanx::runtime::StartContext| {
        if start.processor() == 0 {
            let (control, work, outcome) = (start.control(), work(), of_work.clone());
            stage.dispatch(move |_| async move {
                // A child, so that its panic is seen here, and somebody is left to end the program.
                let ended = stage.call(|_| work).await;
                *outcome.lock().unwrap() = Some(ended);
                control.drain();
            })?;
        }
        Ok(())
    };
    Runtime::new().processors(processors).signals(false).run(graph, start).unwrap();
    let ended = outcome.lock().unwrap().take().expect("the work has ended");
    ended.unwrap_or_else(|error| panic!("{error}"));
}
