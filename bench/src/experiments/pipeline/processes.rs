//! Repeats a measurement in several processes, since the layout of code and data, and thus the result, differs
//! between them.

use std::process::{Command, Stdio};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;
use crate::measure::stretch;

/// Runs `phalanx-bench NAME` with `arguments` in the given number of processes, one after another, and returns
/// their reports. Progress goes to stderr and includes `what`.
pub(crate) fn in_processes<R: DeserializeOwned>(
    processes: usize,
    name: &str,
    arguments: &[String],
    what: &str,
) -> Result<Vec<R>, Error> {
    let report = |process| {
        eprintln!("process {process} of {processes}{what}");
        let mut command = Command::new(crate::system::programs::own()?);
        command.args([name, "--json", "--processes=0"]);
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output()?;
        if !output.status.success() {
            return Err(Error::Process(output.status.to_string()));
        }
        let failed = |error: serde_json::Error| Error::Process(error.to_string());
        let mut report: Value = serde_json::from_slice(&output.stdout).map_err(failed)?;
        if let Some(events) = report.get_mut(stretch::FIELD).map(Value::take) {
            stretch::add_rows(serde_json::from_value(events).map_err(failed)?);
        }
        serde_json::from_value(report).map_err(failed)
    };
    (1..=processes).map(report).collect()
}
