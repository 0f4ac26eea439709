//! Runs the benchmarks of web servers, with small parameters.

use std::process::Command;

use serde_json::{Value, json};

use crate::command::{bench, eventually, interrupted, report};

/// Runs a benchmark of servers and returns its report. Its processes have ended.
fn measured(arguments: &str) -> Value {
    report(&bench(&arguments.split(' ').collect::<Vec<_>>()))
}

fn rows<'a>(report: &'a Value, server: &str) -> Vec<&'a Value> {
    report["rows"].as_array().unwrap().iter().filter(|row| row["server"] == server).collect()
}

fn is_positive(row: &Value, names: &[&str]) -> bool {
    names.iter().all(|name| row[name].as_f64().is_some_and(|value| value > 0.0))
}

#[test]
fn all_servers_are_measured() {
    let report = eventually("run in which every request was answered", || {
        let report = measured("web --quick");
        let rows = report["rows"].as_array().unwrap();
        rows.iter().all(|row| row["failed"] == 0).then_some(report)
    });
    // With 16 and with 64 connections, on each driver.
    let drivers =
        1 + usize::from(phalanx_driver::choose(phalanx::runtime::DriverChoice::Uring).is_ok());
    let count = |server: &str| rows(&report, server).len();
    assert_eq!((count("floor"), count("phalanx")), (2 * drivers, 2 * drivers));
    assert_eq!((count("twin"), count("fibres")), (2, 2));
    for (peer, version) in report["peers"].as_object().unwrap() {
        assert_eq!(count(peer), if version.is_null() { 0 } else { 2 }, "{peer}");
    }
    for row in report["rows"].as_array().unwrap() {
        assert!(is_positive(row, &["cpu_us_per_request_min", "rps"]), "{row}");
        let [least, middle] = ["min", "median"]
            .map(|name| row[format!("cpu_us_per_request_{name}")].as_f64().unwrap());
        assert!(least <= middle, "{row}");
        assert_eq!((&row["slices"], &row["noisy_slices"]), (&json!(2), &json!(0)), "{row}");
    }
    assert!(is_positive(&report, &["phalanx_over_floor", "twin_over_phalanx"]), "{report}");
    let growth = report["growth"].as_array().unwrap();
    assert!(growth.iter().all(|growth| growth["connections"] == json!([16, 64])), "{report}");
    assert_eq!((&report["missing"], report["machine"].is_object()), (&json!([]), true));
}

/// Other scenes, with the servers that start fastest.
#[test]
fn other_scenes_are_measured() {
    for (scene, connections) in [("pipelined", 16), ("medium", 16), ("cold", 64)] {
        let report = measured(&format!("web --quick --only=floor,twin,nginx --scene={scene}"));
        let all = report["rows"].as_array().unwrap();
        assert!(all.iter().all(|row| row["connections"] == connections && row["scene"] == scene));
        let has_floor = !rows(&report, "floor").is_empty();
        assert_eq!(has_floor, scene == "pipelined", "it has a single answer");
        assert!(report["phalanx_over_nginx"].is_null(), "{report}");
    }
}

/// Servers that forward the requests to another one. They have no files, so a server that does not forward fails the
/// probe at its start.
#[test]
fn proxies_are_measured() {
    let report = measured("web --quick --only=phalanx,floor,lighttpd,nginx --scene=proxy");
    assert!(!rows(&report, "phalanx").is_empty(), "{report}");
    assert!(rows(&report, "floor").is_empty() && rows(&report, "lighttpd").is_empty(), "{report}");
    let has_nginx = !report["peers"]["nginx"].is_null();
    assert_eq!(rows(&report, "nginx").len(), if has_nginx { 2 } else { 0 }, "{report}");
}

/// All servers with TLS use it; the floor and the twin have none.
#[test]
fn scenes_with_tls_negotiate_it() {
    for (scene, per_server) in [("tls", 2), ("site", 1)] {
        let report = measured(&format!("web --quick --scene={scene}"));
        for (peer, version) in report["peers"].as_object().unwrap() {
            let count = rows(&report, peer).len();
            // lighttpd has it in a separate package.
            let can = !version.is_null() && !["sws", "lighttpd"].contains(&&**peer);
            assert!(count == per_server || !can && count == 0, "{peer}: {count}");
        }
        assert!(!rows(&report, "phalanx").is_empty(), "{report}");
        for row in report["rows"].as_array().unwrap() {
            assert!(row["tls"].is_string() && is_positive(row, &["cpu_us_per_request_min"]));
            assert!(row["server"] != "floor" && row["server"] != "twin", "{row}");
        }
    }
}

/// The other servers are running when the last one fails to start.
#[test]
#[cfg(target_os = "linux")]
fn no_process_is_left_behind() {
    let mark = format!("PHALANX_MARK={}", fastrand::u64(..));
    let (name, value) = mark.split_once('=').unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx-bench"));
    command.args(["web", "--quick", "--phalanx=/nonexistent"]).env(name, value);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        let is_marked = environment.split(|byte| *byte == 0).any(|text| text == mark.as_bytes());
        assert!(!is_marked, "{process:?} has not exited");
    }
    assert_eq!(bench(&["web", "--quick", "--only=iis"]).status.code(), Some(2));
    assert_eq!(bench(&["overload", "--quick", "--only=lighttpd"]).status.code(), Some(2));
}

/// Interrupted in the first of two numbers of connections.
#[test]
fn an_interrupted_benchmark_of_web_servers_prints_its_results() {
    let arguments = ["web", "--only=twin", "--connections=4,8", "--slices=1000", "--slice=0.1"];
    let report = interrupted(&arguments, "small, 4 connections, round 2 of");
    let slices = report["rows"][0]["slices"].as_u64().unwrap();
    assert!((1..1000).contains(&slices) && report["rows"].as_array().unwrap().len() == 1);
    let missing = json!([
        { "scene": "small", "connections": 4, "slices": slices, "of": 1000 },
        { "scene": "small", "connections": 8, "slices": 0, "of": 1000 },
    ]);
    assert_eq!(report["missing"], missing);
    let arguments = ["overload", "--only=twin", "--connections=8", "--loads=0.5", "--small"];
    let arguments = [&arguments[..], &["--slices=1000", "--slice=0.1"]].concat();
    let report = interrupted(&arguments, "round 2 of 1000");
    let slices = report["rows"][0]["slices"].as_u64().unwrap();
    assert!((1..1000).contains(&slices));
    assert_eq!(report["partial"], json!({ "rounds": slices, "of": 1000 }));
}

#[test]
fn rates_and_settings_are_measured() {
    let report = measured("overload --quick --only=phalanx,twin,nginx");
    assert_eq!((rows(&report, "twin").len(), rows(&report, "phalanx").len()), (2, 2));
    for row in report["rows"].as_array().unwrap() {
        assert!(is_positive(row, &["capacity"]), "{row}");
        assert!(row["goodput_over_best"].as_f64().unwrap() <= 1.0, "{row}");
    }
    for key in ["goodput_at_2_over_best", "p99_ms", "shed_below_saturation", "unanswered"] {
        assert!(!report[key].is_null(), "{key}");
    }
    let report = measured("batch-delay --quick");
    let all = report["rows"].as_array().unwrap();
    assert!(all.len() == 6 * 4, "{report}");
    assert!(all.iter().all(|row| is_positive(row, &["p50_us", "cpu_us_per_request"])));
    let report = measured("light --quick");
    assert_eq!(report["rows"].as_array().unwrap().len(), 3);
    assert!(is_positive(&report, &["p99_over_twin"]), "{report}");
    let report = eventually("run in which every user was served", || {
        let report = measured("figure6 --quick");
        let rows = report["rows"].as_array().unwrap();
        rows.iter().all(|row| row["failed"] == 0).then_some(report)
    });
    assert!(report["rows"].as_array().unwrap().iter().all(|row| is_positive(row, &["rps"])));
    assert!(report["twin_growth_over_phalanx"].is_number(), "{report}");
}

#[test]
fn every_part_of_placement_is_measured() {
    let report = eventually("run in which every server answered", || {
        let report = measured("placement --quick");
        let all = report["rows"].as_array().unwrap();
        assert_eq!(all.len(), 2 * 2);
        let has_answered = |row| is_positive(row, &["p99_us", "cpu_us_per_request"]);
        all.iter().all(has_answered).then_some(report)
    });
    let has_rows = |part: &str| report[part].as_array().is_some_and(|rows| !rows.is_empty());
    assert!(["wake", "sweep", "mixes", "planted"].iter().all(|part| has_rows(part)), "{report}");
}
