use serde_json::Value;

use crate::common::{copy, has, output, run, stingy};

/// The row of a stage.
fn row<'r>(report: &'r Value, stage: &str) -> &'r Value {
    let rows = report["rows"].as_array().expect("rows");
    rows.iter().find(|row| row["stage"] == stage).expect("the stage")
}

#[test]
fn known_accesses_are_counted_exactly() {
    if !has("gcc") || !has("valgrind") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    copy("tests/data/touch.c", folder.path());
    run(folder.path(), "gcc", &["-O1", "-g", "-o", "server", "touch.c"]);
    let stages = ["--stage", "send=send_all", "--stage", "parse=parse"];
    let touch = |format: &[&str]| {
        let rest = ["--skip", "4", "--requests", "8", "--", "./server"];
        stingy(folder.path(), &[&["touch"], format, &stages[..], &rest].concat())
    };
    let declaration = "  graph.ingress(Ingress::Budget);\n  graph.stage(…).entry().object::<[u8; 768]>(\"request\")\n";
    let text = touch(&[]);
    assert!(text.ends_with(declaration), "{text}");
    let report: Value = serde_json::from_str(&touch(&["--json"])).expect("JSON");
    let parse = row(&report, "parse");
    // The pointer `object`, and three lines of the table.
    let expected = [("visits", 4.0), ("heap", 10.0), ("static", 4.0), ("fresh", 0.0)];
    for (key, value) in expected {
        assert_eq!(parse[key].as_f64(), Some(value), "{key}: {report}");
    }
    let send = row(&report, "send");
    // Another buffer than in the visit before, and the first line of the object.
    for (key, value) in [("visits", 8.0), ("heap", 8.0), ("fresh", 7.0)] {
        assert_eq!(send[key].as_f64(), Some(value), "{key}: {report}");
    }
    assert_eq!(parse["functions"][0]["name"], "parse");
    let variables = parse["variables"].as_array().expect("variables");
    let table = variables.iter().find(|variable| variable["name"] == "table").expect("the table");
    assert_eq!(table["lines"].as_f64(), Some(3.0));
    // The object and another buffer, or another buffer only: 16 or 7 lines.
    assert_eq!(report["request_bytes"], 12 * 64);
    // Every second request parses.
    let request = row(&report, "request");
    assert_eq!((request["visits"].as_f64(), request["heap"].as_f64()), (Some(8.0), Some(12.5)));
}

#[test]
fn functions_that_do_not_exist_are_reported() {
    if !has("gcc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    copy("tests/data/touch.c", folder.path());
    run(folder.path(), "gcc", &["-o", "server", "touch.c"]);
    let arguments = ["touch", "--stage", "a=no_such_function", "--", "./server"];
    let output = output(folder.path(), env!("CARGO_BIN_EXE_phalanx-stingy"), &arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("begins with `no_such_function`"),
        "{errors}"
    );
}
