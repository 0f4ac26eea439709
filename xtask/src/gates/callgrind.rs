//! Counts instructions, simulated misses and allocator calls of a program with callgrind.
//!
//! The simulated caches are fixed. Valgrind's own detection of the machine's caches is wrong in virtual machines.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::task::median;

/// Cache sizes of the processor on which the documented figures were measured.
const CACHES: [&str; 3] = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,8,64"];

/// Functions of the allocator that allocate. The ones that free are called equally often.
const ALLOCATOR: [&str; 5] = ["malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc"];

/// Sums of a run, over all threads or of one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) instructions: f64,
    /// Misses of the first-level instruction cache.
    pub(super) i1_misses: f64,
    /// Misses of the first-level data cache, reads and writes.
    pub(super) d1_misses: f64,
    /// Misses of the last-level cache, of any kind.
    pub(super) ll_misses: f64,
    /// Calls to allocation functions of the general allocator.
    pub(super) allocations: f64,
}

impl Counts {
    /// The counts per item, from this run and from `base`, a run with `extra_items` fewer items.
    pub(super) fn per_item(self, base: Self, extra_items: f64) -> Self {
        Self::each(|count| (count(&self) - count(&base)) / extra_items)
    }

    /// The median of each count.
    pub(super) fn median(all: &[Self]) -> Self {
        Self::each(|count| median(all.iter().map(count)))
    }

    /// Counts of which each is computed from the same count of others.
    fn each(compute: impl Fn(fn(&Self) -> f64) -> f64) -> Self {
        Self {
            instructions: compute(|counts| counts.instructions),
            i1_misses: compute(|counts| counts.i1_misses),
            d1_misses: compute(|counts| counts.d1_misses),
            ll_misses: compute(|counts| counts.ll_misses),
            allocations: compute(|counts| counts.allocations),
        }
    }
}

/// A command that runs `program` under callgrind, and the path of callgrind's output. Valgrind's messages go to
/// `valgrind.log` in the same folder.
pub(super) fn command(program: &Path, directory: &Path) -> (Command, PathBuf) {
    let out = directory.join("callgrind.out");
    let log = directory.join("valgrind.log");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--quiet", "--cache-sim=yes"]).args(CACHES);
    // Shortens names and merges functions of the same name.
    command.args(["--compress-strings=yes", "--skip-plt=yes"]);
    command.arg(format!("--log-file={}", log.display()));
    command.arg(format!("--callgrind-out-file={}", out.display())).arg(program);
    (command, out)
}

/// Like [`command`], with an output for each thread: the path, with `-01` for the first thread.
pub(super) fn command_by_thread(program: &Path, directory: &Path) -> (Command, PathBuf) {
    let (inner, out) = command(program, directory);
    let mut command = Command::new(inner.get_program());
    command.arg("--separate-threads=yes").args(inner.get_args());
    (command, out)
}

/// The version of valgrind, if it is installed.
pub(super) fn version() -> Option<String> {
    let output = Command::new("valgrind").arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Parses callgrind's output.
///
/// # Errors
/// When the sums are missing.
pub(super) fn read(text: &str) -> Result<Counts, String> {
    let mut names = HashMap::new();
    let (mut callee, mut events, mut sums) = (None, Vec::new(), Vec::new());
    let mut counts = Counts::default();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("events:") {
            events = rest.split_whitespace().collect();
        } else if let Some(rest) = line.strip_prefix("totals:") {
            sums = rest.split_whitespace().filter_map(|sum| sum.parse::<f64>().ok()).collect();
        } else if let Some(rest) = line.strip_prefix("fn=") {
            name(&mut names, rest);
        } else if let Some(rest) = line.strip_prefix("cfn=") {
            callee = name(&mut names, rest);
        } else if let Some(rest) = line.strip_prefix("calls=") {
            // Recursion is marked after the name: `malloc'2`.
            let to =
                callee.as_deref().map_or("", |name: &str| name.split('\'').next().unwrap_or(name));
            if ALLOCATOR.contains(&to) {
                let times = rest.split_whitespace().next().and_then(|times| times.parse().ok());
                counts.allocations += times.unwrap_or(0.0);
            }
        }
    }
    let sum = |of: &[&str]| {
        let mut total = 0.0;
        for event in of {
            let at = events.iter().position(|name| name == event);
            let Some(sum) = at.and_then(|at| sums.get(at)) else {
                return Err(format!("callgrind's output has no sum of `{event}`"));
            };
            total += sum;
        }
        Ok(total)
    };
    counts.instructions = sum(&["Ir"])?;
    counts.i1_misses = sum(&["I1mr"])?;
    counts.d1_misses = sum(&["D1mr", "D1mw"])?;
    counts.ll_misses = sum(&["ILmr", "DLmr", "DLmw"])?;
    Ok(counts)
}

/// The function name in `(7) malloc`, or the name that an earlier line assigned to `(7)`.
fn name(names: &mut HashMap<String, String>, text: &str) -> Option<String> {
    let (number, name) = text.strip_prefix('(')?.split_once(')')?;
    let name = name.trim();
    if name.is_empty() {
        return names.get(number).cloned();
    }
    names.insert(number.to_owned(), name.to_owned());
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Counts, read};

    const OUT: &str = "\
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw
fn=(1) main
16 5 0 0 0 0 0 0 0 0
cfn=(2) malloc
calls=3 0
16 90 0 0 0 0 0 0 0 0
cfn=(3) free
calls=3 0
fn=(4) other
cfn=(2)
calls=2 0
cfn=(5) calloc'2
calls=1 0
totals: 100 20 10 5 4 3 2 1 1
";

    #[test]
    fn sums_and_calls_are_read() {
        let counts = read(OUT).unwrap();
        let expected = Counts {
            instructions: 100.0,
            i1_misses: 5.0,
            d1_misses: 7.0,
            ll_misses: 4.0,
            allocations: 6.0,
        };
        assert_eq!(counts, expected);
        assert_eq!(counts.per_item(counts, 3.0), Counts::default());
    }

    #[test]
    fn the_median_is_taken_of_each_count() {
        let run = |d1_misses, allocations| Counts { d1_misses, allocations, ..Counts::default() };
        let median = Counts::median(&[run(3.0, 0.0), run(1.0, 2.0), run(2.0, 1.0)]);
        assert_eq!(median, run(2.0, 1.0));
    }

    #[test]
    fn truncated_output_is_an_error() {
        assert!(read("events: Ir\ntotals: 7\n").unwrap_err().contains("I1mr"));
        assert!(read("").is_err());
    }
}
