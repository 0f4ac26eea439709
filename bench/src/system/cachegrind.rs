//! Runs programs under cachegrind, which counts instructions and misses of simulated caches independently of the
//! machine and its load. The cache sizes are explicit, since valgrind's detection is wrong in virtual machines.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::Error;
use crate::system::interrupt::interrupted;
use crate::system::process::Process;

/// Size of the simulated second level in bytes.
pub(crate) const L2: usize = 1 << 20;
/// Time for a server under valgrind to start, or to exit.
pub(crate) const SERVER_TIMEOUT: Duration = Duration::from_secs(180);

/// The simulated caches: the first level of the core on which the documented figures were measured, and a second level of
/// `l2` bytes, which valgrind's last level simulates.
pub(crate) fn caches(l2: usize) -> [String; 3] {
    ["--I1=32768,8,64".into(), "--D1=32768,8,64".into(), format!("--LL={l2},8,64")]
}

/// Counts of a whole process, without the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counts {
    pub(crate) instructions: f64,
    /// Misses of the first-level instruction cache.
    pub(crate) i1: f64,
    /// Misses of the first-level data cache.
    pub(crate) d1: f64,
    /// Misses of the second level, by instructions.
    pub(crate) l2_instructions: f64,
    /// Misses of the second level, by data.
    pub(crate) l2_data: f64,
}

impl Counts {
    /// Misses of the second level, by instructions and data.
    pub(crate) fn l2(self) -> f64 {
        self.l2_instructions + self.l2_data
    }

    /// The counts per item, where `self` processed `count` items more than `fewer`; excludes one-time costs.
    pub(crate) fn beyond(self, fewer: Self, count: usize) -> Self {
        self.combine(fewer, |more, fewer| (more - fewer) / count as f64)
    }

    /// The counts per item of `count` items.
    pub(crate) fn divided_by(self, count: usize) -> Self {
        self.combine(self, |all, _| all / count as f64)
    }

    /// The counts of the rest, without `count` items.
    fn without(self, each: Self, count: usize) -> Self {
        self.combine(each, |all, each| all - each * count as f64)
    }

    fn combine(self, other: Self, with: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            instructions: with(self.instructions, other.instructions),
            i1: with(self.i1, other.i1),
            d1: with(self.d1, other.d1),
            l2_instructions: with(self.l2_instructions, other.l2_instructions),
            l2_data: with(self.l2_data, other.l2_data),
        }
    }
}

/// Length in seconds beyond which the longer load is not repeated; the measurement then fails.
const MAX_SECONDS: u32 = 60;

/// The counts of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Server {
    pub(crate) request: Counts,
    /// The rest: start and exit.
    pub(crate) once: Counts,
}

/// The counts of a server that `run` runs with a load of some seconds and returns with the number of answered requests.
/// Two loads of the lengths `seconds` are compared. If the second answered no more requests than the first, it is repeated
/// with twice the length.
///
/// # Errors
/// As `run`, and when valgrind is not installed (`NotFound`, with an installation hint).
pub(crate) fn server(
    name: &str,
    seconds: [u32; 2],
    mut run: impl FnMut(u32) -> Result<(Counts, usize), Error>,
) -> Result<Server, Error> {
    check()?;
    let [short, mut long] = seconds;
    let (few, fewer) = run(short)?;
    loop {
        let (many, more) = run(long)?;
        if more > fewer {
            let request = many.beyond(few, more - fewer);
            return Ok(Server { request, once: few.without(request, fewer) });
        }
        if long > MAX_SECONDS {
            let reason = format!("{fewer} requests in the shorter load, {more} in the longer");
            return Err(Error::load(name, reason));
        }
        long *= 2;
    }
}

/// A command that runs `program` under valgrind.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]);
    command.args(caches(L2)).arg(program).stdin(Stdio::null());
    command
}

/// `program` with its arguments, under valgrind.
pub(crate) fn under(program: &Command) -> Command {
    with_arguments(command(program.get_program()), program)
}

/// `command` with the arguments and the environment of `program`.
pub(crate) fn with_arguments(mut command: Command, program: &Command) -> Command {
    command.args(program.get_args());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// Checks that valgrind is installed.
///
/// # Errors
/// When it is not, with an installation hint.
pub(crate) fn check() -> io::Result<()> {
    Command::new("valgrind").arg("--version").output().map_err(missing).map(drop)
}

/// Ends a server under valgrind, whose standard error goes to the file `errors`, and reads its counts. Of a server with
/// child processes, these are the counts of the child that exits first.
///
/// # Errors
/// When it does not exit in time, or on a signal.
pub(crate) fn exit(name: &str, server: &Process, errors: &Path) -> Result<Counts, Error> {
    if let Some(process) = Pid::from_raw(server.family[0].cast_signed()) {
        kill_process(process, Signal::TERM).map_err(io::Error::from)?;
    }
    let deadline = Instant::now() + SERVER_TIMEOUT;
    loop {
        interrupted()?;
        let said = std::fs::read_to_string(errors)?;
        // The last line of the counts.
        if let Some(counts) = read(&said).filter(|_| said.contains("LL miss rate")) {
            return Ok(counts);
        }
        if Instant::now() > deadline {
            let last = said.trim().lines().last().unwrap_or_default().to_owned();
            return Err(Error::server(name, format!("it does not exit under valgrind: {last}")));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Runs this program with other arguments to its end.
///
/// # Errors
/// When valgrind is not installed (`NotFound`, with an installation hint) or the program fails under it.
pub(crate) fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> io::Result<Counts> {
    let output =
        command(crate::system::process::own()?).args(arguments).output().map_err(missing)?;
    let text = String::from_utf8_lossy(&output.stderr);
    match read(&text).filter(|_| output.status.success()) {
        Some(counts) => Ok(counts),
        None => Err(io::Error::other(format!("valgrind failed: {}", text.trim()))),
    }
}

/// Adds an installation hint if valgrind was not found.
fn missing(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(
            error.kind(),
            "valgrind is not installed: try `apt-get install valgrind`",
        ),
        _ => error,
    }
}

/// Parses cachegrind's summary: lines such as `I   refs:  1,234` and `LLd misses:  1,234 (…`.
fn read(text: &str) -> Option<Counts> {
    let number = |name: &str| {
        let (_, behind) = text.lines().find_map(|line| line.split_once(name))?;
        let digits = behind.split_whitespace().next()?.replace(',', "");
        digits.parse().ok()
    };
    Some(Counts {
        instructions: number("I   refs:")?,
        i1: number("I1  misses:")?,
        d1: number("D1  misses:")?,
        l2_instructions: number("LLi misses:")?,
        l2_data: number("LLd misses:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_parsed() {
        let text = "==7== I   refs:      1,234,567\n==7== I1  misses:         12,345\n\
                    ==7== LLi misses:          1,050\n==7== \n\
                    ==7== D1  misses:         20,001  (       10,000 rd   +    10,001 wr)\n\
                    ==7== LLd misses:          7,951  (        1,000 rd   +     6,951 wr)\n";
        let counts = Counts {
            instructions: 1_234_567.0,
            i1: 12345.0,
            d1: 20001.0,
            l2_instructions: 1050.0,
            l2_data: 7951.0,
        };
        assert_eq!(read(text), Some(counts));
        assert_eq!(counts.l2(), 9001.0);
        assert_eq!(read("valgrind: no such tool"), None);
    }

    #[test]
    fn one_time_costs_cancel() {
        let of = |instructions, i1, d1, l2_instructions, l2_data| Counts {
            instructions,
            i1,
            d1,
            l2_instructions,
            l2_data,
        };
        let beyond = of(9000.0, 1100.0, 500.0, 300.0, 70.0)
            .beyond(of(1000.0, 100.0, 100.0, 100.0, 50.0), 100);
        assert_eq!(beyond, of(80.0, 10.0, 4.0, 2.0, 0.2));
    }
}
