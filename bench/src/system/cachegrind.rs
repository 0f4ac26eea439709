//! Runs programs under cachegrind, which counts instructions and misses of simulated caches independently of the
//! machine and its load. The cache sizes are explicit, since valgrind's detection is wrong in virtual machines.

use std::ffi::OsStr;
use std::io;
use std::process::{Command, Stdio};

/// Size of the simulated second level in bytes.
pub(crate) const L2: usize = 1 << 20;
/// Caches of the core on which the documented figures were measured; the last level simulates the second.
const CACHES: [&str; 3] = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,8,64"];

/// Counts of a whole process, without the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counts {
    pub(crate) instructions: f64,
    /// Misses of the first-level instruction cache.
    pub(crate) i1: f64,
    /// Misses of the second level, instructions and data.
    pub(crate) l2: f64,
}

impl Counts {
    /// The counts per item, where `self` processed `count` items more than `fewer`; excludes one-time costs.
    pub(crate) fn beyond(self, fewer: Self, count: usize) -> Self {
        let each = |more: f64, fewer: f64| (more - fewer) / count as f64;
        Self {
            instructions: each(self.instructions, fewer.instructions),
            i1: each(self.i1, fewer.i1),
            l2: each(self.l2, fewer.l2),
        }
    }
}

/// A command that runs `program` under valgrind.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]);
    command.args(CACHES).arg(program).stdin(Stdio::null());
    command
}

/// Runs this program with other arguments to its end.
///
/// # Errors
/// When valgrind is not installed (`NotFound`, with an installation hint) or the program fails under it.
pub(crate) fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> io::Result<Counts> {
    let output =
        command(crate::system::programs::own()?).args(arguments).output().map_err(missing)?;
    let text = String::from_utf8_lossy(&output.stderr);
    match read(&text).filter(|_| output.status.success()) {
        Some(counts) => Ok(counts),
        None => Err(io::Error::other(format!("valgrind failed: {}", text.trim()))),
    }
}

/// Adds an installation hint if valgrind was not found.
pub(crate) fn missing(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(
            error.kind(),
            "valgrind is not installed: try `apt-get install valgrind`",
        ),
        _ => error,
    }
}

/// Parses cachegrind's summary: `I   refs:  1,234`, `I1  misses:  1,234` and `LL misses:  1,234 (…`.
pub(crate) fn read(text: &str) -> Option<Counts> {
    let number = |name: &str| {
        let (_, behind) = text.lines().find_map(|line| line.split_once(name))?;
        let digits = behind.split_whitespace().next()?.replace(',', "");
        digits.parse().ok()
    };
    Some(Counts {
        instructions: number("I   refs:")?,
        i1: number("I1  misses:")?,
        l2: number("LL misses:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_parsed() {
        let text = "==7== I   refs:      1,234,567\n==7== I1  misses:         12,345\n==7== \n\
                    ==7== LL misses:           9,001  (        1,050 rd   +     7,951 wr)\n";
        let counts = Counts { instructions: 1_234_567.0, i1: 12345.0, l2: 9001.0 };
        assert_eq!(read(text), Some(counts));
        assert_eq!(read("valgrind: no such tool"), None);
    }

    #[test]
    fn one_time_costs_cancel() {
        let of = |instructions, i1, l2| Counts { instructions, i1, l2 };
        let beyond = of(9000.0, 1100.0, 300.0).beyond(of(1000.0, 100.0, 100.0), 100);
        assert_eq!(beyond, of(80.0, 10.0, 2.0));
    }
}
