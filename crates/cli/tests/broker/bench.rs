//! `phalanx bench broker`, in small: that both brokers are driven, and every shape comes to figures.

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
    let ours: Vec<_> = rows.iter().filter(|row| row["server"] == "phalanx").collect();
    assert_eq!(ours.len(), 3 * 4 + 3);
    // Filters are ours alone, and so is all where mosquitto is not installed.
    let theirs = rows.len() - ours.len();
    let ways = if report["mosquitto"].is_null() { 0 } else { 2 };
    assert_eq!(theirs, ways * (ours.len() - 1), "{said}");
    for row in rows {
        assert!(row["per_s"].as_f64().unwrap() > 0.0 && row["slices"] == 1, "{row}");
        assert_eq!(row["p99_us"].is_number(), row["shape"] == "light", "{row}");
    }
    assert!(report["filters_per_s"].is_number() && report["filters"] == 2000, "{report}");
}
