//! The same pipeline under cachegrind: misses of a simulated instruction cache, which are the same
//! on every machine and at any load.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

use super::{Error, Options};

/// As in the core that our figures come from. Never valgrind's own guess: in a virtual machine the
/// last level is not what it says.
const CACHES: [&str; 3] = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,8,64"];
/// Twice, with so many requests; the difference leaves out all that happens once.
const REQUESTS: [usize; 2] = [256, 768];
const COHORTS: [usize; 2] = [1, 64];

/// Misses of the first-level instruction cache for each request.
#[derive(Clone, Debug, Serialize)]
pub struct MissReport {
    /// By size of stage and of cohort.
    pub rows: Vec<MissRow>,
    /// For each size of stage: misses in cohorts of 64 over those in cohorts of 1.
    pub cohort64_over_1: Vec<f64>,
}

/// One size of stage in one size of cohort.
#[derive(Clone, Debug, Serialize)]
pub struct MissRow {
    /// Of code.
    pub kib_per_stage: u64,
    /// On the runtime.
    pub cohort: usize,
    /// Through all stages.
    pub i1_misses_per_request: f64,
}

pub(super) fn run(options: &Options) -> Result<MissReport, Error> {
    let directory = tempfile::tempdir()?;
    let mut report = MissReport { rows: Vec::new(), cohort64_over_1: Vec::new() };
    for kib in options.kib.iter().copied() {
        for cohort in COHORTS {
            eprintln!("8 x {kib} KiB, cohorts of {cohort}, under valgrind");
            let [few, many] = REQUESTS.map(|n| misses(cohort, kib, n, directory.path()));
            let i1_misses_per_request = (many? - few?) / (REQUESTS[1] - REQUESTS[0]) as f64;
            report.rows.push(MissRow { kib_per_stage: kib, cohort, i1_misses_per_request });
        }
        let [one, sixty_four] = [2, 1].map(|n| &report.rows[report.rows.len() - n]);
        let ratio = sixty_four.i1_misses_per_request / one.i1_misses_per_request;
        report.cohort64_over_1.push(ratio);
    }
    Ok(report)
}

/// All I1 misses of a process that runs so many requests.
fn misses(cohort: usize, kib: u64, requests: usize, directory: &Path) -> Result<f64, Error> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=yes"]).args(CACHES);
    command.arg(format!("--cachegrind-out-file={}", directory.join("out").display()));
    command.arg(std::env::current_exe()?).args(["bench", "pipeline"]);
    command.args([format!("--walk={cohort}"), format!("--kib={kib}")]);
    command.arg(format!("--requests={requests}"));
    let output = command.stdin(Stdio::null()).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::NoValgrind,
        _ => Error::Io(error),
    })?;
    let text = String::from_utf8_lossy(&output.stderr);
    match (output.status.success(), i1_misses(&text)) {
        (true, Some(misses)) => Ok(misses),
        _ => Err(Error::Process(format!("valgrind said: {}", text.trim()))),
    }
}

/// The number in cachegrind's line `I1  misses:  1,234`.
fn i1_misses(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains("I1  misses:"))?;
    let digits: String = line.rsplit(':').next()?.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}

impl fmt::Display for MissReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "simulated misses of the instruction cache (32 KiB, 8 ways) for a request\n")?;
        writeln!(f, "{:>8}{:>12}{:>12}{:>12}", "a stage", "cohort 1", "cohort 64", "ratio")?;
        for (pair, ratio) in self.rows.chunks(2).zip(&self.cohort64_over_1) {
            let [one, sixty_four] = pair else { continue };
            writeln!(
                f,
                "{:>8}{:>12.1}{:>12.1}{:>12}",
                format!("{} KiB", one.kib_per_stage),
                one.i1_misses_per_request,
                sixty_four.i1_misses_per_request,
                format!("1/{:.0}", 1.0 / ratio),
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_read() {
        let text = "==7== I   refs:      1,234,567\n==7== I1  misses:         12,345\n==7== ";
        assert_eq!(i1_misses(text), Some(12345.0));
        assert_eq!(i1_misses("valgrind: no such tool"), None);
    }
}
