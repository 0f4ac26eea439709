//! Runs the counted programs: kernels, and the web server with a client in this process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::baseline::Figure;
use super::callgrind::{self, Counts};
use crate::live::Home;
use crate::live::server::{Client, Server};
use crate::parallel;
use crate::task::Failure;

/// A single-threaded workload: its name in `phalanx-kernels`, and the numbers of iterations in each pair of runs that
/// are compared.
struct Workload {
    name: &'static str,
    counts: [u32; 2],
    /// Whether it runs in a fraction of a second, and its memory nearly fills the simulated cache.
    is_shifted: bool,
}

/// Bytes by which the stack and the heap of a kernel are shifted in each pair of runs, in steps of 13 cache lines, which
/// spread over the 64 sets of the cache. The data of a kernel nearly fills the cache, so its misses depend on which lines
/// happen to share a set: the same program had 1.0 to 1.7 misses for a call. The median depends on it much less.
const SHIFTS: [(usize, usize); 5] =
    [(0, 0), (832, 1_664), (1_664, 3_328), (2_496, 832), (3_328, 2_496)];

const WORK: [Workload; 6] = [
    Workload { name: "dispatch", counts: [6_400, 32_000], is_shifted: true },
    Workload { name: "call", counts: [6_400, 32_000], is_shifted: true },
    Workload { name: "call-direct", counts: [6_400, 32_000], is_shifted: true },
    Workload { name: "http", counts: [640, 3_200], is_shifted: true },
    Workload { name: "match", counts: [1_024, 3_072], is_shifted: false },
    Workload { name: "match-cohort", counts: [1_024, 3_072], is_shifted: false },
];

/// Requests to the server in the two runs. Earlier requests warm its caches.
const REQUESTS: [u32; 2] = [256, 1_280];

/// The names of all counted workloads.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    WORK.iter().map(|workload| workload.name).chain(["web"])
}

/// The counted programs.
pub(super) struct Programs {
    pub(super) phalanx: PathBuf,
    pub(super) kernels: PathBuf,
}

/// Figures of a workload, and which could not be counted on this machine and why.
pub(super) type Counted = Result<(Vec<Figure>, Vec<String>), Failure>;

/// Counts workloads, as many at a time as there are cores, and returns the results in the order of `names`.
pub(super) fn count_all(names: &[&'static str], programs: &Programs) -> Vec<Counted> {
    parallel::map(names, parallel::cores(), |name| count(name, programs))
}

fn count(name: &str, Programs { phalanx, kernels }: &Programs) -> Counted {
    let home = Home::create(&format!("gates-{name}"))?;
    if let Some(workload) = WORK.iter().find(|workload| workload.name == name) {
        let extra_items = f64::from(workload.counts[1] - workload.counts[0]);
        let shifts = if workload.is_shifted { &SHIFTS[..] } else { &SHIFTS[..1] };
        let per_item_counts = shifts.iter().map(|shift| {
            let [few, many] =
                workload.counts.map(|times| count_process(workload, times, *shift, kernels, &home));
            Ok(many?.per_item(few?, extra_items))
        });
        let per_item_counts = per_item_counts.collect::<Result<Vec<_>, Failure>>()?;
        return Ok((figures(name, Counts::median(&per_item_counts)), Vec::new()));
    }
    let small = home.root().join("small");
    std::fs::write(small, [b'x'; 2048])?;
    let [few, many] = REQUESTS.map(|times| simulated(times, phalanx, &home));
    let extra_items = f64::from(REQUESTS[1] - REQUESTS[0]);
    let per_item_counts =
        many?.into_iter().zip(few?).map(|(many, few)| many.per_item(few, extra_items));
    // The thread that serves. The others work by the clock, so their counts depend on the machine's load.
    let per_item_counts =
        per_item_counts.max_by(|one, other| one.instructions.total_cmp(&other.instructions));
    let per_item_counts = per_item_counts.ok_or("callgrind has counted no thread")?;
    let (mut found, mut skipped) = (figures(name, per_item_counts), Vec::new());
    for driver in ["poll", "uring"] {
        let [few, many] = REQUESTS.map(|times| system_calls(driver, times, phalanx, &home.root()));
        match few.and_then(|few| Ok(many? - few)) {
            Ok(more) => {
                let calls = more / f64::from(REQUESTS[1] - REQUESTS[0]);
                found.push((format!("{name}.{driver}.system_calls"), calls));
            }
            Err(reason) => skipped.push(format!("{name}.{driver}.system_calls: {reason}")),
        }
    }
    Ok((found, skipped))
}

fn figures(name: &str, per_item_counts: Counts) -> Vec<Figure> {
    let figures = [
        ("instructions", per_item_counts.instructions),
        ("allocations", per_item_counts.allocations),
        ("i1_misses", per_item_counts.i1_misses),
        ("d1_misses", per_item_counts.d1_misses),
        ("ll_misses", per_item_counts.ll_misses),
    ];
    figures.map(|(figure, value)| (format!("{name}.{figure}"), value)).to_vec()
}

/// A run of a program that exits by itself, with its stack and its heap shifted by so many bytes.
fn count_process(
    workload: &Workload,
    times: u32,
    (stack, heap): (usize, usize),
    program: &Path,
    home: &Home,
) -> Result<Counts, Failure> {
    let directory = home.root();
    let (mut command, out) = callgrind::command(program, &directory);
    command.arg(workload.name).arg(format!("--count={times}")).arg(format!("--heap-shift={heap}"));
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.env("SHIFT", "x".repeat(stack));
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let log = std::fs::read_to_string(directory.join("valgrind.log")).unwrap_or_default();
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}\n{}", stderr.trim(), log.trim()).into());
    }
    Ok(callgrind::read(&std::fs::read_to_string(out)?)?)
}

/// A run of the server with `times` requests on one connection: the counts of its threads, in the order of their
/// creation.
fn simulated(times: u32, program: &Path, home: &Home) -> Result<Vec<Counts>, Failure> {
    // Next to the served folder.
    let directory = home.root().join("..");
    let (command, out) = callgrind::command_by_thread(program, &directory);
    let text = |error: std::io::Error| {
        let log = std::fs::read_to_string(directory.join("valgrind.log")).unwrap_or_default();
        format!("the server under valgrind: {error}\n{}", log.trim())
    };
    let arguments = [&ONE[..], &["--driver", "poll"]].concat();
    let server = Server::start_by(command, &home.root(), &arguments).map_err(text)?;
    ask(&server, times).map_err(text)?;
    if !server.end().map_err(text)? {
        return Err(text(std::io::Error::other("it did not exit successfully")).into());
    }
    let mut threads = Vec::new();
    loop {
        let file = format!("{}-{:02}", out.display(), threads.len() + 1);
        let Ok(counts) = std::fs::read_to_string(&file) else { return Ok(threads) };
        threads.push(callgrind::read(&counts)?);
        // The next run may have fewer threads.
        std::fs::remove_file(file).map_err(text)?;
    }
}

/// One processor that parks as soon as it is idle, and files that are not revalidated.
const ONE: [&str; 6] = ["--workers", "1", "--spin", "0", "--revalidate-interval", "1h"];

/// Sends each request only when the server sleeps, so that it always finds exactly one, even on a busy machine.
fn ask(server: &Server, times: u32) -> std::io::Result<()> {
    let mut client = Client::connect(server.address)?;
    for _ in 0..times {
        server.asleep()?;
        let answer = client.get("/small")?;
        assert_eq!((answer.status, answer.body.len()), (200, 2048), "{}", answer.head);
    }
    Ok(())
}

/// System calls per request, as counted by the driver.
fn system_calls(driver: &str, times: u32, program: &Path, root: &Path) -> Result<f64, Failure> {
    let mut command = Command::new(program);
    command.stderr(Stdio::piped());
    let arguments = [&ONE[..], &["--driver", driver, "--admin", "127.0.0.1:0"]].concat();
    let mut server = Server::start_by(command, root, &arguments)?;
    let stderr = BufReader::new(server.stderr().expect("a pipe")).lines();
    let at = stderr.map_while(Result::ok).find_map(|line| {
        let (_, at) = line.split_once("admin page at http://")?;
        at.trim_end_matches('/').parse().ok()
    });
    let at = at.ok_or("it does not print the address of its admin pages")?;
    ask(&server, times)?;
    let answer = Client::connect(at).and_then(|mut client| client.get("/snapshot.json"));
    let body = String::from_utf8(answer?.body)?;
    let calls = body.split("\"system_calls\":").nth(1);
    let calls = calls.and_then(|rest| rest.split([',', '}']).next()?.trim().parse().ok());
    calls.ok_or_else(|| "no system_calls in its snapshot".into())
}
