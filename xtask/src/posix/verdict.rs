//! The execution of one test, and its verdict.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::programs::Program;

/// A test that runs for longer hangs. The longest one takes some 30 s.
const LIMIT: Duration = Duration::from_secs(90);
/// How long a test that runs until it receives SIGUSR1 runs.
const STRESS: Duration = Duration::from_secs(3);
const TICK: Duration = Duration::from_millis(10);
/// How many lines of output are kept.
const LINES: usize = 5;

/// The verdict of a test, which is its exit code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    Passed,
    Failed,
    Unresolved,
    Unsupported,
    Untested,
    Hangs,
    NotStarted,
    OtherCode(i32),
    Signal(i32),
}

/// A verdict and the last lines of the output.
pub(super) struct Run {
    pub(super) verdict: Verdict,
    pub(super) output: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Verdict::Passed => "passed",
            Verdict::Failed => "failed",
            Verdict::Unresolved => "unresolved",
            Verdict::Unsupported => "unsupported",
            Verdict::Untested => "untested",
            Verdict::Hangs => "hangs",
            Verdict::NotStarted => "not started",
            Verdict::OtherCode(code) => return write!(formatter, "exit code {code}"),
            Verdict::Signal(signal) => return write!(formatter, "signal {signal}"),
        };
        formatter.write_str(word)
    }
}

impl From<ExitStatus> for Verdict {
    fn from(status: ExitStatus) -> Verdict {
        match status.code() {
            Some(0) => Verdict::Passed,
            Some(1) => Verdict::Failed,
            Some(2) => Verdict::Unresolved,
            Some(4) => Verdict::Unsupported,
            Some(5) => Verdict::Untested,
            Some(code) => Verdict::OtherCode(code),
            None => Verdict::Signal(status.signal().unwrap_or(0)),
        }
    }
}

/// Runs a test in its folder, which is emptied before.
pub(super) fn run(command: &mut Command, program: &Program) -> Run {
    let verdict = execute(command, program).unwrap_or(Verdict::NotStarted);
    let output = fs::read(program.folder.join("output")).unwrap_or_default();
    let output = String::from_utf8_lossy(&output);
    let lines: Vec<_> = output.lines().rev().take(LINES).collect();
    let output = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
    let _ = fs::remove_dir_all(&program.folder);
    Run { verdict, output }
}

fn execute(command: &mut Command, program: &Program) -> std::io::Result<Verdict> {
    let _ = fs::remove_dir_all(&program.folder);
    fs::create_dir_all(&program.folder)?;
    let output = File::create(program.folder.join("output"))?;
    // A group of its own: some tests signal their group, and a test that hangs may have children.
    let mut child = command
        .current_dir(&program.folder)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .spawn()?;
    let begin = Instant::now();
    let mut is_endless = program.is_endless;
    while begin.elapsed() < LIMIT {
        if let Some(status) = child.try_wait()? {
            return Ok(status.into());
        }
        if is_endless && begin.elapsed() > STRESS {
            Command::new("kill").args(["-USR1", &child.id().to_string()]).status()?;
            is_endless = false;
        }
        std::thread::sleep(TICK);
    }
    let group = format!("-{}", child.id());
    Command::new("kill").args(["-KILL", "--", &group]).status()?;
    child.wait()?;
    Ok(Verdict::Hangs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_verdicts() {
        let table = [
            (0, Verdict::Passed),
            (1 << 8, Verdict::Failed),
            (2 << 8, Verdict::Unresolved),
            (3 << 8, Verdict::OtherCode(3)),
            (4 << 8, Verdict::Unsupported),
            (5 << 8, Verdict::Untested),
            (11, Verdict::Signal(11)),
        ];
        for (status, expected) in table {
            assert_eq!(Verdict::from(ExitStatus::from_raw(status)), expected, "{status}");
        }
    }
}
