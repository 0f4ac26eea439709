//! Runs one benchmark in a separate process with a time limit.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::system::{Group, is_interrupted, procfs};

/// Interval between two polls of the process.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time for a benchmark to end its servers after a signal.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Result of a benchmark.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Its report and duration.
    Measured(Value, Duration),
    /// The reason of a failure.
    Failed(String),
    Interrupted,
}

/// Runs `phalanx-bench` with `arguments`. Passes the elapsed time and the last line of output to `look`.
pub(super) fn run(
    program: &Path,
    arguments: &[&str],
    limit: Duration,
    look: impl FnMut(Duration, &str),
) -> io::Result<Outcome> {
    run_within(program, arguments, (limit, SHUTDOWN_TIMEOUT), look)
}

/// Like [`run`], with the time for the benchmark to end after the limit.
fn run_within(
    program: &Path,
    arguments: &[&str],
    (limit, shutdown): (Duration, Duration),
    mut look: impl FnMut(Duration, &str),
) -> io::Result<Outcome> {
    use std::os::unix::process::CommandExt;
    let directory = tempfile::Builder::new().prefix("phalanx-report-").tempdir()?;
    let (out, errors) = (directory.path().join("out"), directory.path().join("err"));
    let mut command = Command::new(program);
    command.args(arguments).arg("--json").process_group(0);
    command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&errors)?);
    let mut group = Group(command.spawn()?);
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = group.0.try_wait()? {
            break status;
        }
        let late = begun.elapsed() > limit;
        if late || is_interrupted() {
            end(&mut group, shutdown)?;
            return Ok(match late {
                true => Outcome::Failed(format!("timed out after {} s", limit.as_secs())),
                false => Outcome::Interrupted,
            });
        }
        let said = fs::read_to_string(&errors)?;
        look(begun.elapsed(), said.trim_end().lines().last().unwrap_or_default());
        std::thread::sleep(POLL_INTERVAL);
    };
    if is_interrupted() {
        return Ok(Outcome::Interrupted);
    }
    if !status.success() {
        let said = fs::read_to_string(&errors)?;
        let last = said.trim_end().lines().last().unwrap_or("it said nothing").to_owned();
        return Ok(Outcome::Failed(format!("{status}: {last}")));
    }
    Ok(match serde_json::from_slice(&fs::read(&out)?) {
        Ok(report) => Outcome::Measured(report, begun.elapsed()),
        Err(error) => Outcome::Failed(format!("its output is not JSON: {error}")),
    })
}

/// Asks it to end, so that it ends its servers. If it does not, kills it and all its descendants: servers and loads have
/// process groups of their own.
fn end(group: &mut Group, shutdown: Duration) -> io::Result<()> {
    let child = group.0.id();
    let signal = |process: u32, signal| {
        Pid::from_raw(process.cast_signed()).map(|pid| kill_process(pid, signal))
    };
    let _ = signal(child, Signal::INT);
    let begun = Instant::now();
    while begun.elapsed() < shutdown {
        if group.0.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    for process in procfs::family(child).unwrap_or_default() {
        let _ = signal(process, Signal::KILL);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// An executable script.
    fn program(script: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("phalanx");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        (directory, path)
    }

    fn outcome(script: &str, limit: u64) -> Outcome {
        let (_directory, path) = program(script);
        run(&path, &["op"], Duration::from_secs(limit), |_, _| ()).unwrap()
    }

    #[test]
    fn timeouts_and_failures_end_the_child() {
        let Outcome::Measured(report, _) = outcome("echo \"{\\\"of\\\": \\\"$1 $2\\\"}\"", 60)
        else {
            panic!("expected JSON");
        };
        assert_eq!(report["of"], "op --json");
        for (script, limit, wanted) in [
            ("echo much >&2; echo why >&2; exit 3", 60, "why"),
            ("echo words", 60, "not JSON"),
            ("sleep 600", 0, "timed out after 0 s"),
        ] {
            let Outcome::Failed(reason) = outcome(script, limit) else { panic!("{script}") };
            assert!(reason.contains(wanted), "{script}: {reason}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn descendants_in_other_groups_are_killed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        // A server with a process group of its own, below a process that ignores the signal.
        let script = format!("trap '' INT; setsid sleep 600 & echo $! > {}; wait", file.display());
        let (_directory, path) = program(&script);
        let mut limit = Duration::from_millis(200);
        // On a busy machine the shell may need longer to start the server.
        let server: u32 = loop {
            let limits = (limit, Duration::from_millis(100));
            let outcome = run_within(&path, &["op"], limits, |_, _| ()).unwrap();
            assert!(matches!(outcome, Outcome::Failed(_)), "expected a timeout: {outcome:?}");
            match fs::read_to_string(&file).unwrap_or_default().trim().parse() {
                Ok(server) => break server,
                Err(_) => limit *= 2,
            }
            assert!(limit < Duration::from_secs(60), "the server does not start");
        };
        let is_gone = || {
            let stat = fs::read_to_string(format!("/proc/{server}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        let begun = Instant::now();
        while !is_gone() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the server goes on");
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
