//! Runs `phalanx bench broker --quick`: both brokers are measured, and every shape has figures.

use std::process::Command;

use serde_json::Value;

#[test]
fn every_shape_is_measured() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    let output = command.args(["bench", "broker", "--quick", "--json"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let of = |server: &str| rows.iter().filter(|row| row["server"] == server).count();
    let (ours, kept) = (of("phalanx"), of("phalanx-kept"));
    // QoS 1 is also measured with a journal, except latency and filters (QoS 0).
    assert_eq!((ours, kept), (3 * 4 + 3, 3 * 2 + 1), "{said}");
    // Filters are measured with Phalanx only, and everything is where mosquitto is not installed.
    let ways = if report["mosquitto"].is_null() { 0 } else { 2 };
    assert_eq!(rows.len() - ours - kept, ways * (ours - 1), "{said}");
    for row in rows {
        assert!(row["per_s"].as_f64().unwrap() > 0.0 && row["slices"] == 1, "{row}");
        assert_eq!(row["p99_us"].is_number(), row["shape"] == "light", "{row}");
    }
    assert!(report["kept_acknowledged_per_s"].as_f64().unwrap() > 0.0, "{report}");
    assert!(report["filters_per_s"].is_number() && report["filters"] == 2000, "{report}");
}
