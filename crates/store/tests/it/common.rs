//! Test programs that end together with their work, even if it fails.

use std::future::Future;
use std::sync::{Arc, Mutex};

use phalanx::{Graph, Runtime};

/// Runs `work` on the first of the workers in a program of `graph`, and panics if it panics.
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
                // A child stage, so that its panic is caught here and the program can be stopped.
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
