//! `#[phalanx::main]` and `#[phalanx::test]`.

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use phalanx::runtime::RunError;
use phalanx::shutdown::{drain, draining};
use phalanx::time::now;
use phalanx::{CallError, Graph, PartitionedStage, Runtime, SharedStage, sim, sleep, yield_now};

/// The stages of a program that counts.
#[derive(Clone, Copy)]
struct Stages {
    counts: PartitionedStage<u64>,
}

impl Stages {
    fn declare(graph: &mut Graph) -> Self {
        Self { counts: graph.partitioned("counts", |_| 0) }
    }

    async fn count(self, key: u64) -> Result<u64, CallError> {
        let count = self.counts.call(key, |count| async move {
            count.with(|count| {
                *count += 1;
                *count
            })
        });
        count.await
    }
}

#[phalanx::main(processors = 2, stages = Stages::declare)]
async fn counts(stages: Stages) -> Result<(), Box<dyn Error>> {
    for _ in 0..9 {
        stages.count(7).await?;
    }
    match stages.count(7).await? {
        10 => Ok(()),
        other => Err(format!("{other}").into()),
    }
}

#[phalanx::main(runtime = Runtime::new().processors(1).signals(false))]
async fn fails() -> Result<(), Box<dyn Error>> {
    yield_now().await;
    Err("by intent".into())
}

#[test]
fn the_result_of_main_is_the_exit_code() {
    let code = |code: ExitCode| format!("{code:?}");
    assert_eq!(code(counts()), code(ExitCode::SUCCESS));
    assert_eq!(code(fails()), code(ExitCode::FAILURE));
}

#[phalanx::test]
async fn a_test_on_a_runtime() -> Result<(), Box<dyn Error>> {
    sleep(Duration::from_millis(1)).await;
    Ok(())
}

#[phalanx::test(processors = 2, stages = Stages::declare)]
async fn a_test_with_stages(stages: Stages) {
    assert_eq!(stages.count(1).await.unwrap(), 1);
    assert_eq!(stages.count(1).await.unwrap(), 2);
}

#[phalanx::test(seeds = 20, stages = Stages::declare)]
async fn a_simulated_test(stages: Stages) -> Result<(), CallError> {
    let begin = now();
    sleep(Duration::from_secs(3600)).await;
    assert!(now() - begin >= Duration::from_secs(3600));
    assert_eq!(stages.count(1).await?, 1);
    Ok(())
}

#[phalanx::test(seed = 7, processors = 2)]
#[should_panic(expected = "by intent")]
async fn a_panic_fails_a_simulated_test() {
    yield_now().await;
    panic!("by intent");
}

#[phalanx::test(seeds = 2)]
#[should_panic(expected = "the test returned an error: Full")]
async fn an_error_fails_a_simulated_test() -> Result<(), Failure> {
    Err(Failure::Full)
}

#[derive(Debug)]
enum Failure {
    Full,
}

#[phalanx::test]
#[should_panic(expected = "by intent")]
async fn a_panic_fails_a_test() {
    yield_now().await;
    panic!("by intent");
}

#[test]
#[should_panic(expected = "no event can happen")]
fn a_simulated_test_that_waits_forever_fails() {
    sim::block_on(1, None, |_| (), |()| std::future::pending::<()>());
}

/// Adds one when it is dropped.
struct Dropped(&'static AtomicU64);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn operations_that_main_started_may_finish() {
    static FINISHED: AtomicU64 = AtomicU64::new(0);
    let runtime = Runtime::new().processors(1).signals(false);
    let output = runtime.block_on(
        |graph| graph.shared("work", ()),
        |work: SharedStage<()>| async move {
            work.dispatch(|_| async {
                draining().await;
                sleep(Duration::from_millis(2)).await;
                drop(Dropped(&FINISHED));
            })
        },
    );
    output.unwrap().unwrap();
    assert_eq!(FINISHED.load(Ordering::Relaxed), 1);
}

#[test]
fn an_ended_program_has_no_output() {
    let runtime =
        Runtime::new().processors(1).signals(false).shutdown_timeout(Duration::from_millis(1));
    let output = runtime.block_on(
        |_| (),
        |()| async {
            drain();
            sleep(Duration::from_secs(3600)).await;
        },
    );
    assert!(matches!(output, Err(RunError::Cancelled)), "{output:?}");
}

#[test]
fn a_program_within_a_program_is_refused() {
    let runtime = || Runtime::new().processors(1).signals(false);
    let inner = move || runtime().block_on(|_| (), |()| async {});
    let output = runtime().block_on(|_| (), move |()| async move { inner() });
    assert!(matches!(output, Ok(Err(RunError::Nested))));
}
