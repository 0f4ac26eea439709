//! A program under cachegrind: instructions and misses of simulated caches, which are the same on every machine and at
//! any load. Never with valgrind's own guess of the caches: in a virtual machine that is wrong.

pub(crate) mod server;

use std::ffi::OsStr;
use std::io;
use std::process::{Command, Stdio};

/// Bytes of the simulated second level.
pub(crate) const L2: usize = 1 << 20;
/// As in the core that our figures come from; the last level stands for the second.
const CACHES: [&str; 3] = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,8,64"];

/// What a whole process took and missed; the kernel's part is not in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counts {
    pub(crate) instructions: f64,
    /// Of the first-level instruction cache.
    pub(crate) i1: f64,
    /// Of the second level, instructions and data.
    pub(crate) l2: f64,
}

impl Counts {
    /// For each of `count`, where `self` is of so many more than `fewer`: what happens once is left out.
    pub(crate) fn beyond(self, fewer: Self, count: usize) -> Self {
        let each = |more: f64, fewer: f64| (more - fewer) / count as f64;
        Self {
            instructions: each(self.instructions, fewer.instructions),
            i1: each(self.i1, fewer.i1),
            l2: each(self.l2, fewer.l2),
        }
    }
}

/// `program` with valgrind before it.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]);
    command.args(CACHES).arg(program).stdin(Stdio::null());
    command
}

/// This program with other arguments, to its end.
///
/// # Errors
/// When there is no valgrind (`NotFound`, and how to get it), or the program fails under it.
pub(crate) fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> io::Result<Counts> {
    let output = command(std::env::current_exe()?).args(arguments).output().map_err(missing)?;
    let text = String::from_utf8_lossy(&output.stderr);
    match read(&text).filter(|_| output.status.success()) {
        Some(counts) => Ok(counts),
        None => Err(io::Error::other(format!("valgrind said: {}", text.trim()))),
    }
}

/// Says how to get valgrind, where it is that which is not found.
pub(crate) fn missing(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(
            error.kind(),
            "valgrind is not installed: try `apt-get install valgrind`",
        ),
        _ => error,
    }
}

/// What cachegrind says at its end, as `I   refs:  1,234`, `I1  misses:  1,234` and `LL misses:  1,234 (…`.
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
    fn the_summary_is_read() {
        let text = "==7== I   refs:      1,234,567\n==7== I1  misses:         12,345\n==7== \n\
                    ==7== LL misses:           9,001  (        1,050 rd   +     7,951 wr)\n";
        let counts = Counts { instructions: 1_234_567.0, i1: 12345.0, l2: 9001.0 };
        assert_eq!(read(text), Some(counts));
        assert_eq!(read("valgrind: no such tool"), None);
    }

    #[test]
    fn what_happens_once_is_left_out() {
        let of = |instructions, i1, l2| Counts { instructions, i1, l2 };
        let beyond = of(9000.0, 1100.0, 300.0).beyond(of(1000.0, 100.0, 100.0), 100);
        assert_eq!(beyond, of(80.0, 10.0, 2.0));
    }
}
