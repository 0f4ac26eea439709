//! The same measurement in several processes: where code and data come to lie differs from one to the
//! next, and with it what is measured.

use std::process::{Command, Stdio};

use serde::de::DeserializeOwned;

use super::Error;

/// Runs `phalanx bench NAME` with `arguments` in so many processes, one after the other, and gives their
/// reports. Progress goes to stderr, with `what` is measured behind it.
///
/// # Errors
/// When a process cannot be started or does not answer.
pub(crate) fn in_processes<R: DeserializeOwned>(
    processes: usize,
    name: &str,
    arguments: &[String],
    what: &str,
) -> Result<Vec<R>, Error> {
    let report = |process| {
        eprintln!("process {process} of {processes}{what}");
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", name, "--json", "--processes=0"]);
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output()?;
        if !output.status.success() {
            return Err(Error::Process(output.status.to_string()));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| Error::Process(error.to_string()))
    };
    (1..=processes).map(report).collect()
}
