//! Simulating one `async` function.

use std::cell::RefCell;
use std::future::Future;

use phalanx_core::Graph;

use crate::runtime::block_on::Outcome;

/// Simulates [`Runtime::block_on`](crate::Runtime::block_on): runs `main` as an operation on the first processor of a
/// simulated program, and returns its output. The program has `workers` processors, or one to three, chosen by the
/// seed.
///
/// ```
/// use std::time::Duration;
/// use phalanx::time::{now, sleep};
/// use phalanx::sim;
///
/// let hour = Duration::from_secs(3600);
/// sim::explore_each(10, |seed| {
///     let slept = sim::block_on(seed, None, |_| (), move |()| async move {
///         let begin = now();
///         sleep(hour).await;
///         now() - begin
///     });
///     assert!(slept >= hour);
/// });
/// ```
///
/// # Panics
/// Like [`run`](super::run), and if `main` panics.
pub fn block_on<S, M, F>(
    seed: u64,
    workers: Option<usize>,
    declare: impl FnOnce(&mut Graph) -> S,
    main: M,
) -> F::Output
where
    S: 'static,
    M: FnOnce(S) -> F + 'static,
    F: Future + 'static,
    F::Output: 'static,
{
    let outcome = Outcome::new();
    super::run(seed, |world| {
        if let Some(workers) = workers {
            world.set_processors(workers);
        }
        let mut graph = Graph::new();
        let stage = graph.shared("main", ());
        let argument = declare(&mut graph);
        let (work, outcome) = (RefCell::new(Some((main, argument))), outcome.clone());
        world.program(graph, move |start| {
            if start.processor() > 0 {
                return Ok(());
            }
            let (main, argument) = work.take().expect("each processor starts once");
            let outcome = outcome.clone();
            stage.dispatch(move |_| outcome.record(move || main(argument)))?;
            Ok(())
        });
    });
    outcome.take().expect("the program has ended by itself, so main has returned")
}
