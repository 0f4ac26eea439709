//! `phalanx-bench axum`, where its programs are installed.

use serde_json::Value;

use crate::command::{bench, report};

#[test]
fn an_axum_application_is_measured_beside_other_libraries() {
    let output = bench(&["axum", "--quick"]);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("phalanx-axum-arms cannot be measured: it was not found") {
        return eprintln!("SKIPPED: {said}");
    }
    let report = report(&output);
    let mut servers = vec!["phalanx", "axum-serve", "tokio-cores"];
    if !said.contains("phalanx-http-arms was not found") {
        servers.extend(["ntex", "monoio", "may-minihttp"]);
    }
    let rows = report["rows"].as_array().unwrap();
    let processors = std::thread::available_parallelism().unwrap().get();
    let settings = if processors > 1 { 4 } else { 2 };
    assert_eq!(rows.len(), settings * servers.len(), "{said}{report}");
    for scene in rows.chunks(servers.len()) {
        let names: Vec<_> = scene.iter().map(|row| row["server"].as_str().unwrap()).collect();
        assert_eq!(names, servers);
    }
    let is_measured = |row: &Value| row["per_s"].as_f64().unwrap() > 0.0;
    assert!(rows.iter().all(is_measured), "{report}");
}
