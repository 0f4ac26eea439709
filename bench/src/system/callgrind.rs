//! Servers under callgrind, which simulates the same caches as cachegrind, but only after vgdb has switched it on. A server
//! thus builds large structures about ten times as fast as under cachegrind, and only its requests are counted.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::system::cachegrind::{Counts, caches, check, with_arguments};
use crate::system::process::Process;

/// The start of a line with the sums of a dump, in the order of [`EVENTS`].
const TOTALS: &str = "totals: ";
/// The events of a dump: instructions, reads and writes, then the misses of both levels by each.
const EVENTS: &str = "events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw";

/// A server under callgrind.
pub(crate) struct Counted<'a> {
    server: &'a Process,
    /// The name of its dumps, without their numbers.
    dumps: PathBuf,
    /// The number of dumps so far.
    count: usize,
}

/// A command that runs `program` under callgrind with a second-level cache of `l2` bytes. Its dumps are in `directory`.
/// Nothing is simulated until [`Counted::begin`].
pub(crate) fn under(program: &Command, l2: usize, directory: &Path) -> io::Result<Command> {
    check()?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--instr-atstart=no", "--cache-sim=yes"]).args(caches(l2));
    let mut out = OsString::from("--callgrind-out-file=");
    out.push(dumps(directory));
    command.arg(out).arg(program.get_program()).stdin(Stdio::null());
    Ok(with_arguments(command, program))
}

fn dumps(directory: &Path) -> PathBuf {
    directory.join("callgrind.out")
}

impl<'a> Counted<'a> {
    /// Begins to simulate, with empty caches, a server that was started with [`under`] and the same directory.
    pub(crate) fn begin(server: &'a Process, directory: &Path) -> Result<Self, Error> {
        let counted = Self { server, dumps: dumps(directory), count: 0 };
        counted.tell(&["instrumentation", "on"])?;
        Ok(counted)
    }

    /// The counts of the server during `load`. The simulated caches keep their contents.
    pub(crate) fn during<T>(
        &mut self,
        load: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(Counts, T), Error> {
        self.tell(&["zero"])?;
        let loaded = load()?;
        self.tell(&["dump"])?;
        self.count += 1;
        let path = self.dumps.with_extension(format!("out.{}", self.count));
        let dump = std::fs::read_to_string(&path)?;
        let counts = read(&dump).ok_or_else(|| {
            io::Error::other(format!("{}: no totals of the simulated caches", path.display()))
        })?;
        Ok((counts, loaded))
    }

    fn tell(&self, words: &[&str]) -> Result<(), Error> {
        let mut command = Command::new("vgdb");
        command.arg(format!("--pid={}", self.server.family[0])).args(words).stdin(Stdio::null());
        let output = command.output()?;
        if output.status.success() {
            return Ok(());
        }
        let reason = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("vgdb {}: {}", words.join(" "), reason.trim())).into())
    }
}

/// Parses the sums of a dump. Zeros at the end of the line are left out.
fn read(dump: &str) -> Option<Counts> {
    dump.lines().find(|line| *line == EVENTS)?;
    let totals = dump.lines().find_map(|line| line.strip_prefix(TOTALS))?;
    let mut sums = [0.0; 9];
    for (sum, text) in sums.iter_mut().zip(totals.split_whitespace()) {
        *sum = text.parse().ok()?;
    }
    let [instructions, _, _, i1, d1_reads, d1_writes, l2_instructions, l2_reads, l2_writes] = sums;
    let (d1, l2_data) = (d1_reads + d1_writes, l2_reads + l2_writes);
    Some(Counts { instructions, i1, d1, l2_instructions, l2_data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_of_a_dump_are_parsed() {
        let dump = "version: 1\npositions: line\nevents: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\n\
                    summary: 90 30 20 4 3 2 1 1 1\n\nfn=(1) main\n5 90\ntotals: 100 30 20 4 3 2 1 1\n";
        let counts =
            Counts { instructions: 100.0, i1: 4.0, d1: 5.0, l2_instructions: 1.0, l2_data: 1.0 };
        assert_eq!(read(dump), Some(counts));
        assert_eq!(read("events: Ir\ntotals: 100\n"), None, "caches were not simulated");
    }
}
