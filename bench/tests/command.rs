//! Runs `phalanx-bench` on the real servers, with small parameters.

#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

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

/// Runs a benchmark and returns its output.
fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx-bench"));
    command.env("PHALANX_EXECUTABLE", phalanx()).args(arguments).arg("--json").output().unwrap()
}

/// The report of a successful run.
fn report(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Repeats `attempt` until it succeeds, in case the machine stalled during the measurement.
fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no {what}");
    }
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
    let output = bench(&["figure7", "--connections=4", "--quick"]);
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        assert!(said.contains("valgrind is not installed"), "{said}");
        return;
    }
    let report = report(&output);
    let rows = report["rows"].as_array().unwrap();
    let servers: Vec<_> = rows.iter().map(|row| row["server"].as_str().unwrap()).collect();
    assert_eq!(servers, ["phalanx", "twin"], "{said}");
    let figure = |row: &Value, name: &str| row[name].as_f64().unwrap();
    for row in rows {
        // A request is parsed, looked up and answered.
        assert!(figure(row, "instructions") > 1000.0, "{row}");
        assert!(figure(row, "cycles") >= figure(row, "own_cycles"), "{row}");
    }
    // Not all cycles are outside the kernel. In a short run they may appear so for one server.
    assert!(rows.iter().any(|row| figure(row, "cycles") > figure(row, "own_cycles")), "{report}");
    assert!(report["cycles_over_twin"].as_f64().unwrap() > 0.0, "{report}");
}

#[test]
fn every_shape_of_the_broker_is_measured() {
    let report = report(&bench(&["broker", "--quick"]));
    let rows = report["rows"].as_array().unwrap();
    let of = |server: &str| rows.iter().filter(|row| row["server"] == server).count();
    let (ours, kept) = (of("phalanx"), of("phalanx-kept"));
    // QoS 1 is also measured with a journal, except latency and filters (QoS 0).
    assert_eq!((ours, kept), (3 * 4 + 3, 3 * 2 + 1), "{report}");
    // Filters are measured with Phalanx only, and everything is where mosquitto is not installed.
    let ways = if report["mosquitto"].is_null() { 0 } else { 2 };
    assert_eq!(rows.len() - ours - kept, ways * (ours - 1), "{report}");
    for row in rows {
        assert!(row["per_s"].as_f64().unwrap() > 0.0 && row["slices"] == 1, "{row}");
        assert_eq!(row["p99_us"].is_number(), row["shape"] == "light", "{row}");
    }
    assert!(report["kept_acknowledged_per_s"].as_f64().unwrap() > 0.0, "{report}");
    assert!(report["filters_per_s"].is_number() && report["filters"] == 2000, "{report}");
}

/// A running `phalanx web`; killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
        web.arg("web").arg(path("root")).args(["--listen", "127.0.0.1:0", "--h2c"]);
        if tls {
            web.arg("--tls-certificate").arg(path("chain.pem"));
            web.arg("--tls-key").arg(path("key.pem"));
        }
        let mut server = Server(web.stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap();
        let url = format!("{}/", url.trim_end_matches('/'));
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
