//! Small programs for tests, without signal handlers and with time limits.

use std::future::Future;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use phalanx::runtime::DriverChoice;
use phalanx::{CallError, Graph, SharedStage};

pub(crate) use crate::drivers::{on, runtime};

/// Runs one operation, which receives the stage that it runs on, and then ends the program.
pub(crate) fn one<F, Fut, T>(driver: DriverChoice, operation: F) -> T
where
    F: FnOnce(SharedStage<()>) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let operation = Mutex::new(Some(operation));
    let result: Arc<Mutex<Option<Result<T, CallError>>>> = Arc::default();
    let mut graph = Graph::new();
    // The queue is FIFO, so that operations that become due at the same time on a busy machine run in order.
    let stage = graph.stage("test").shared(());
    let ran = runtime(driver, 1).run(graph, |start| {
        let operation = operation.lock().unwrap().take().expect("one processor");
        let (control, result) = (start.control(), result.clone());
        stage.dispatch(move |_| async move {
            // As a child, so that its panic is seen here.
            let outcome = stage.call(move |_| operation(stage)).await;
            *result.lock().unwrap() = Some(outcome);
            control.end();
        })?;
        Ok(())
    });
    ran.expect("the program runs");
    let result = result.lock().unwrap().take().expect("the operation has ended");
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the test `name` of this folder in a child process, and returns its stderr. In the child: none.
pub(crate) fn output_of(name: &str, driver: DriverChoice) -> Option<String> {
    let output = child_of(name, driver)?;
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    Some(stderr)
}

/// Runs the test `name` of this folder in a child process. In the child: none.
pub(crate) fn child_of(name: &str, driver: DriverChoice) -> Option<Output> {
    const CHILD: &str = "PHALANX_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("runtime::{name}::{driver}"), "--nocapture"]);
    Some(child.env(CHILD, "1").output().unwrap())
}

/// Runs blocking code on a thread. If an operation blocked until its peer acts, the processor could not serve that
/// peer.
pub(crate) async fn on_other_thread<T: Send + 'static>(
    f: impl FnOnce() -> T + Send + 'static,
) -> T {
    let thread = thread::spawn(f);
    while !thread.is_finished() {
        phalanx::sleep(Duration::from_millis(1)).await;
    }
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
