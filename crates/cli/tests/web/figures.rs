//! Runs `phalanx bench figure4` and `figure7` with small parameters.

use std::process::{Command, Output};

use serde_json::Value;

use crate::server::eventually;

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.arg("bench").args(arguments).args(["--quick", "--json"]).output().unwrap()
}

#[test]
fn the_running_server_is_profiled() {
    // Repeated if the machine stalled during the interval.
    let report = eventually("active stages", || {
        let output = bench(&["figure4", "--connections=16"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
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
    let output = bench(&["figure7", "--connections=4"]);
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        assert!(said.contains("valgrind is not installed"), "{said}");
        return;
    }
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
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
