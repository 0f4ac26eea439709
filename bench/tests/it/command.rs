//! Runs `phalanx-bench` on the real servers, with small parameters.

#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use phalanx_testkit::nats::NatsServer;
use phalanx_testkit::process::Process;
use serde_json::{Value, json};

/// The `phalanx` to measure: the one named by PHALANX_EXECUTABLE, or the one built with these tests. If only these
/// tests were built, it is built now.
fn phalanx() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if let Some(path) = std::env::var_os("PHALANX_EXECUTABLE") {
            return path.into();
        }
        let beside = PathBuf::from(env!("CARGO_BIN_EXE_phalanx-bench")).with_file_name("phalanx");
        if !beside.is_file() {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--package", "phalanx-cli", "--bin", "phalanx"]);
            assert!(cargo.status().unwrap().success(), "phalanx does not compile");
        }
        beside
    })
}

/// Runs a benchmark and returns its output, with the report as JSON.
pub(crate) fn bench(arguments: &[&str]) -> Output {
    run(&[arguments, &["--json"]].concat())
}

/// Runs a benchmark and returns its report as text.
pub(crate) fn bench_as_text(arguments: &[&str]) -> String {
    String::from_utf8(run(arguments).stdout).unwrap()
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx-bench"));
    command.env("PHALANX_EXECUTABLE", phalanx()).args(arguments).output().unwrap()
}

/// The report of a successful run.
pub(crate) fn report(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Repeats `attempt` until it succeeds, in case the machine stalled during the measurement.
pub(crate) fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no {what}");
    }
}

/// Programs with threads are measured natively and under `phalanx threads`, with Apache and memcached if installed.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn programs_with_threads_run_in_all_arms() {
    // The instructions FSGSBASE are required.
    if rustix::param::linux_hwcap().1 & 2 == 0
        || Command::new("cc").arg("--version").output().is_err()
    {
        return eprintln!("SKIPPED: this machine lacks FSGSBASE, or there is no cc");
    }
    let report = report(&bench(&["servlib", "--quick"]));
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.len() >= 6 * 4 && rows.len().is_multiple_of(4), "{report}");
    for row in rows {
        assert!(row["cost"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["over_native"].as_f64().unwrap() > 0.0, "{row}");
    }
    let arms: Vec<_> = rows[..4].iter().map(|row| row["arm"].as_str().unwrap()).collect();
    assert_eq!(arms, ["native", "shim", "shim, FIFO", "shim, no large I/O"]);
}

#[test]
fn the_running_server_is_profiled() {
    let report = eventually("active stages", || {
        let report = report(&bench(&["figure4", "--connections=16", "--quick"]));
        let rows = report["rows"].as_array().unwrap();
        let control = rows.iter().find(|row| row["stage"] == "control").unwrap();
        let figure = |name: &str| control[name].as_f64().unwrap();
        (figure("cohort_mean") >= 1.0 && figure("share") > 0.0).then_some(report)
    });
    let arcs = report["arcs"].as_array().unwrap();
    assert!(arcs.iter().any(|arc| arc["from"].is_null() && arc["to"] == "control"), "{arcs:?}");
    let picture = report["picture"].as_str().unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains(">control</text>"), "{picture}");
}

#[test]
fn requests_are_counted_staged_and_threaded() {
    let arguments = ["figure7", "--users=16", "--think=0.001", "--quick"];
    let output = bench(&arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        assert!(said.contains("valgrind is not installed"), "{said}");
        return;
    }
    let figure = |row: &Value, name: &str| row[name].as_f64().unwrap();
    // Not all cycles are outside the kernel. In a short run beside other work they may appear so.
    let in_kernel = |row: &Value| figure(row, "cycles") > figure(row, "own_cycles");
    let mut first = Some(report(&output));
    let report = eventually("cycles in the kernel", || {
        let report = first.take().unwrap_or_else(|| report(&bench(&arguments)));
        report["rows"].as_array().unwrap().iter().any(in_kernel).then_some(report)
    });
    let rows = report["rows"].as_array().unwrap();
    let servers: Vec<_> = rows.iter().map(|row| row["server"].as_str().unwrap()).collect();
    assert_eq!(servers, ["phalanx", "twin"], "{said}");
    for row in rows {
        // A request is parsed, looked up and answered.
        assert!(figure(row, "instructions") > 1000.0, "{row}");
        assert!(figure(row, "cycles") >= figure(row, "own_cycles"), "{row}");
        let l2 = figure(row, "l2_instruction_misses") + figure(row, "l2_data_misses");
        assert!(l2 <= figure(row, "i1_misses") + figure(row, "d1_misses"), "{row}");
    }
    assert!(report["cycles_over_twin"].as_f64().unwrap() > 0.0, "{report}");
}

/// Requires that the staged server starts under valgrind, where io_uring does not work.
#[test]
fn publishes_are_counted_staged_and_threaded() {
    let output = bench(&["figure8", "--misses", "--quick"]);
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        assert!(said.contains("valgrind is not installed"), "{said}");
        return;
    }
    let report = report(&output);
    let costs = report["costs"].as_array().unwrap();
    let name = |row: &Value| format!("{} {}", row["server"], row["phase"]).replace('"', "");
    let of = |server: &str| ["construction", "matching"].map(|phase| format!("{server} {phase}"));
    let rows: Vec<_> = costs.iter().map(name).collect();
    assert_eq!(rows, [of("twin"), of("staged")].concat(), "{said}");
    for row in costs {
        // A filter is parsed and inserted; an event is received, matched and answered.
        assert!(row["instructions"].as_f64().unwrap() > 1000.0, "{row}");
    }
}

/// The index is built before callgrind simulates caches.
#[test]
fn matching_is_counted_without_the_construction() {
    let output = bench(&["figure8", "--matching-misses", "--quick", "--l2=2"]);
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        assert!(said.contains("valgrind is not installed"), "{said}");
        return;
    }
    let report = report(&output);
    let costs = report["costs"].as_array().unwrap();
    let name = |row: &Value| format!("{} {} {}", row["server"], row["phase"], row["clients"]);
    let rows: Vec<_> = costs.iter().map(|row| name(row).replace('"', "")).collect();
    let wanted = ["twin matching 4", "staged matching 4"];
    assert_eq!((rows, report["l2_mib"].as_u64()), (wanted.map(str::to_owned).to_vec(), Some(2)));
    for row in costs {
        let instructions = row["instructions"].as_f64().unwrap();
        // The construction of an index of 2,000 filters would add tens of thousands.
        assert!((1000.0..1e6).contains(&instructions), "{row}");
    }
}

#[test]
fn every_shape_of_the_broker_is_measured() {
    let report = report(&bench(&["broker", "--quick"]));
    let rows = report["rows"].as_array().unwrap();
    let of = |server: &str| rows.iter().filter(|row| row["server"] == server).count();
    let (ours, kept) = (of("phalanx"), of("phalanx-kept"));
    // QoS 1 is also measured with a journal, except latency and filters (QoS 0).
    assert_eq!((ours, kept), (3 * 4 + 2 + 3, 3 * 2 + 1 + 1), "{report}");
    // Filters are measured with Phalanx only, and everything is where no peer is installed.
    for (peer, version) in report["peers"].as_object().unwrap() {
        let wanted = if version.is_null() { 0 } else { ours - 1 };
        assert_eq!(of(peer), wanted, "{peer}: {report}");
    }
    for row in rows {
        assert!(row["per_s"].as_f64().unwrap() > 0.0 && row["slices"] == 1, "{row}");
        assert_eq!(row["p99_us"].is_number(), row["shape"] == "light", "{row}");
    }
    assert!(report["kept_acknowledged_per_s"].as_f64().unwrap() > 0.0, "{report}");
    assert!(report["filters_per_s"].is_number() && report["filters"] == 2000, "{report}");
}

#[test]
fn state_survives_a_measured_restart() {
    let report = report(&bench(&["state", "--quick", "--only=phalanx"]));
    let [row] = &report["rows"].as_array().unwrap()[..] else { panic!("{report}") };
    // One of a thousand retained messages, and all queued ones.
    assert_eq!((&row["checked"], &row["missing"]), (&json!(61), &json!(0)), "{report}");
    assert!(row["restart_s"].as_f64().unwrap() > 0.0, "{report}");
}

#[test]
fn a_cluster_is_compared_with_one_broker() {
    if NatsServer::start("").is_none() {
        return;
    }
    let report = report(&bench(&["cluster", "--quick"]));
    let rows = report["rows"].as_array().unwrap();
    // Five rows of kept messages, two of their latency, two of moves, and three of each kind of kill.
    assert_eq!(rows.len(), 2 + 4 + 4 + 2 + 5 + 2 + 2 + 3 * 3, "{report}");
    assert_eq!(report["failed"], json!([]), "{report}");
    for row in rows {
        assert!(row["cluster"].as_f64().unwrap() > 0.0 && row["slices"] == 1, "{row}");
        assert_eq!(row["one"].is_null(), row["qos"].is_null(), "{row}");
    }
}

#[test]
fn servers_are_measured_with_several_processors() {
    let report = report(&bench(&["scale", "--quick", "--only=phalanx", "--part=web,broker"]));
    let rows = report["rows"].as_array().unwrap();
    let loads = ["popular", "unpopular", "pair", "fan-out", "fan-in", "shared", "filters"];
    let found = rows.iter().map(|row| format!("{} {}", row["load"], row["processors"]));
    let wanted = loads.iter().flat_map(|load| [1, 2].map(|n| format!("\"{load}\" {n}")));
    assert_eq!(found.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
    for row in rows {
        assert!(row["cpu_us"].as_f64().unwrap() > 0.0 && row["per_s"].as_f64().unwrap() > 0.0);
        assert!(row["over_best_peer"].is_null(), "{row}");
    }
    let first = |row: &&Value| row["processors"] == 1;
    assert!(rows.iter().filter(first).all(|row| row["over_first"] == 1.0), "{report}");
}

/// Interrupts a benchmark after it printed a line that contains `part`, and returns its report.
pub(crate) fn interrupted(arguments: &[&str], part: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx-bench"));
    command.env("PHALANX_EXECUTABLE", phalanx()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut bench = command.args(arguments).arg("--json").spawn().unwrap();
    let mut said = BufReader::new(bench.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains(part)), "it starts");
    let pid = rustix::process::Pid::from_raw(bench.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let said: Vec<String> = said.collect();
    let printed = bench.wait_with_output().unwrap();
    assert_eq!(printed.status.code(), Some(130), "{said:?}");
    serde_json::from_slice(&printed.stdout).unwrap()
}

#[test]
fn an_interrupted_benchmark_of_the_broker_prints_its_results() {
    let report = interrupted(
        &["broker", "--shape=light,pair", "--rounds=1000", "--slice=0.01"],
        ", round 2 of",
    );
    let slices = report["rows"][0]["slices"].as_u64().unwrap();
    assert!((1..1000).contains(&slices) && report["interrupted"] == true, "{report}");
}

#[test]
fn an_interrupted_benchmark_of_the_matcher_prints_the_measured_rounds() {
    let filters = ["--subscriptions=1000", "--workload=W0", "--access=single", "--cohort=0,64"];
    let arguments = [&["match", "--rounds=1000", "--slice=10"], &filters[..]].concat();
    let report = interrupted(&arguments, "round 2 of");
    let rounds = report["rounds"].as_u64().unwrap();
    assert!((1..1000).contains(&rounds) && report["interrupted"] == true, "{report}");
    assert!(
        report["rows"].as_array().unwrap().iter().all(|row| row["rounds"] == rounds),
        "{report}"
    );
}

/// `phalanx-bench load --http2`, with prior knowledge and negotiated by TLS: every response is HTTP/2.
#[test]
fn the_load_generator_uses_http2() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    std::fs::create_dir(path("root")).unwrap();
    std::fs::write(path("root/small"), "small").unwrap();
    std::fs::write(path("root/large"), vec![b'x'; 1 << 20]).unwrap();
    std::fs::write(path("paths"), "/small\n/large\n").unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(path("chain.pem"), made.cert.pem()).unwrap();
    std::fs::write(path("key.pem"), made.signing_key.serialize_pem()).unwrap();
    for tls in [false, true] {
        let mut web = Command::new(phalanx());
        let scheme = if tls { "https" } else { "http" };
        web.arg("web").arg(path("root")).arg("--h2c");
        web.arg(format!("--listen={scheme}://127.0.0.1:0"));
        if tls {
            web.arg("--tls-certificate").arg(path("chain.pem"));
            web.arg("--tls-key").arg(path("key.pem"));
        }
        let server = Process::start(web);
        let url = format!("{scheme}://{}/", server.address());
        let paths = path("paths");
        let load = ["load", "--http2", "-k", "-c", "3", "-d", "0.5", "--pipeline", "5", "--paths"];
        eventually("many answers", || {
            let report = report(&bench(&[&load[..], &[paths.to_str().unwrap(), &url]].concat()));
            let completed = report["completed"].as_u64().unwrap();
            assert_eq!(report["status"]["2xx"], completed, "{report}");
            assert!(report["errors"].as_object().unwrap().values().all(|n| n == 0), "{report}");
            (completed > 10 && report["bytes"].as_u64().unwrap() > 1 << 20).then_some(())
        });
    }
}
