//! Runtimes for tests, on the drivers that the machine has.

use phalanx::runtime::{DriverChoice, RunError};
use phalanx::{Graph, Runtime};
use phalanx_testkit::driver::is_selected;
use phalanx_testkit::within_limit;

/// Runs a test on a thread and fails it if it hangs; skips it if the machine lacks the driver.
pub(crate) fn on(driver: &str, test: fn(DriverChoice)) {
    let driver: DriverChoice = driver.parse().expect("the name of a driver");
    let nothing = || match runtime(driver, 1).run(Graph::new(), |start| {
        start.control().drain();
        Ok(())
    }) {
        Err(error @ (RunError::Driver(_) | RunError::OpenDriver { .. })) => Err(error),
        _ => Ok(()),
    };
    if is_selected(&driver.to_string(), nothing) {
        within_limit(move || test(driver));
    }
}

/// A runtime without signal handlers, because tests run in parallel.
pub(crate) fn runtime(driver: DriverChoice, processors: usize) -> Runtime {
    Runtime::new().driver(driver).processors(processors).signals(false)
}
