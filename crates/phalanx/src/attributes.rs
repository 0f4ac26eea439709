//! The documentation of the attributes, and the functions that their generated code calls.

use std::future::Future;
use std::process::ExitCode;

use phalanx_core::Graph;
/// Runs an `async fn main` as an operation of a stage named `main`, on the first processor of a
/// [`Runtime`](crate::Runtime): short for [`Runtime::block_on`](crate::Runtime::block_on).
///
/// ```
/// use std::time::Duration;
///
/// #[phalanx::main(processors = 1)]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     phalanx::sleep(Duration::from_millis(1)).await;
///     Ok(())
/// }
/// ```
///
/// A program with more stages declares them in a function, whose result is the argument of `main`:
///
/// ```
/// use std::collections::HashMap;
/// use phalanx::{CallError, Graph, PartitionedStage};
///
/// struct Stages {
///     counts: PartitionedStage<HashMap<u64, u32>>,
/// }
///
/// impl Stages {
///     fn declare(graph: &mut Graph) -> Self {
///         Self { counts: graph.partitioned("counts", |_| HashMap::new()) }
///     }
/// }
///
/// #[phalanx::main(processors = 2, stages = Stages::declare)]
/// async fn main(stages: Stages) -> Result<(), CallError> {
///     let key = 3;
///     let count = stages.counts.call(key, move |counts| async move {
///         counts.with(|counts| {
///             let count = counts.entry(key).or_default();
///             *count += 1;
///             *count
///         })
///     });
///     assert_eq!(count.await?, 1);
///     Ok(())
/// }
/// ```
///
/// | argument | meaning | default |
/// |---|---|---|
/// | `processors = 2` | processors, each a thread | one per core |
/// | `stages = path` | function `fn(&mut Graph) -> S` that declares the stages | no other stages |
/// | `runtime = expression` | a configured [`Runtime`](crate::Runtime), instead of `processors` | `Runtime::new()` |
///
/// The generated code names the crate `::phalanx`, so the dependency cannot be renamed.
///
/// The program drains when `main` returns. The result of `main` determines the exit code, as for a `main` without this
/// attribute. If the program cannot be started, or if `main` is cancelled, the reason is printed and the exit code is
/// 1.
///
/// `main` runs on one processor. A server that accepts connections on each processor should use
/// [`Runtime::run`](crate::Runtime::run).
///
/// ```compile_fail
/// #[phalanx::main]
/// fn main() {} // expects an `async fn`
/// ```
pub use phalanx_macros::main;
/// Runs an `async` test on a runtime with one processor, or in the [simulator](crate::sim).
///
/// ```
/// #[phalanx::test]
/// async fn on_a_runtime() {
///     phalanx::yield_now().await;
/// }
///
/// // In 100 simulations, each with its own order of events.
/// #[phalanx::test(seeds = 100)]
/// async fn simulated() {
///     phalanx::sleep(std::time::Duration::from_secs(3600)).await; // virtual time
/// }
/// ```
///
/// | argument | meaning |
/// |---|---|
/// | `processors = 2` | processors; one by default, and one to three in a simulation, chosen by the seed |
/// | `stages = path` | function `fn(&mut Graph) -> S` that declares the stages; its result is the test's argument |
/// | `seeds = 100` | simulates with the seeds 0 to 99; [variables](crate::sim::explore) change them |
/// | `seed = 7` | simulates with this seed |
///
/// A test may return a `Result`; an error fails it.
///
/// ```compile_fail
/// #[phalanx::test]
/// async fn needs_stages(stages: u8) {} // nothing supplies this parameter
/// # needs_stages();
/// ```
pub use phalanx_macros::test;

use crate::runtime::{RunError, Runtime};

/// Returns the exit code of `#[phalanx::main]`. If the program did not run, prints the reason.
#[doc(hidden)]
pub fn exit_code(result: Result<ExitCode, RunError>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("Error: {error}");
        ExitCode::FAILURE
    })
}

/// Runs a test of `#[phalanx::test]` on a runtime.
#[doc(hidden)]
pub fn run_test<S, M, F>(
    processors: usize,
    declare: impl FnOnce(&mut Graph) -> S,
    main: M,
) -> F::Output
where
    S: Send + 'static,
    M: FnOnce(S) -> F + Send + 'static,
    F: Future + 'static,
    F::Output: Send + 'static,
{
    let runtime = Runtime::new().processors(processors).signals(false);
    runtime.block_on(declare, main).unwrap_or_else(|error| panic!("the test did not run: {error}"))
}

/// The output of a test.
#[doc(hidden)]
pub trait TestOutput {
    /// Panics if the output is an error.
    fn check(self);
}

impl TestOutput for () {
    fn check(self) {}
}

impl<T, E: std::fmt::Debug> TestOutput for Result<T, E> {
    fn check(self) {
        if let Err(error) = self {
            panic!("the test returned an error: {error:?}");
        }
    }
}
