//! `memwalk` with a run of the program.

use serde_json::{Value, json};

use crate::common::{copy, is_installed, output, run, stingy};

/// A folder with a file of the crate's examples or test data and its description, built by gcc; `None` without the tools.
fn built(source: &str, description: &str, flags: &[&str]) -> Option<tempfile::TempDir> {
    if !is_installed("gcc") || !is_installed("valgrind") {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    copy(source, folder.path());
    copy(description, folder.path());
    let source = source.rsplit('/').next().expect("a name");
    let program = source.trim_end_matches(".c");
    run(folder.path(), "gcc", &[flags, &["-g", "-o", program, source]].concat());
    Some(folder)
}

/// The objects of a run at a stage, as `name bytes`.
fn objects(stage: &Value) -> Vec<String> {
    let objects = stage["traced"]["objects"].as_array().expect("objects").iter();
    objects.map(|of| format!("{} {}", of["name"].as_str().expect("text"), of["bytes"])).collect()
}

#[test]
fn the_requests_of_tux_have_the_memory_that_the_analysis_states() {
    let flags = ["-O2", "-fstack-usage"];
    let Some(folder) = built("examples/tux/tux.c", "examples/tux/stingy.toml", &flags) else {
        return;
    };
    let memwalk = |format: &str, visits: &str| {
        let arguments = ["memwalk", format, "--visits", visits, "--", "./tux", "1", "50"];
        stingy(folder.path(), &arguments)
    };
    let analysis: Value = serde_json::from_str(&memwalk("--json", "1000")).expect("JSON");
    let stages = analysis["stages"].as_array().expect("stages");
    assert_eq!(stages.len(), 9);
    for stage in stages {
        let traced = &stage["traced"];
        assert_eq!(traced["bytes"], stage["bytes"], "{stage}");
        let of_run: u64 = traced["objects"]
            .as_array()
            .expect("objects")
            .iter()
            .map(|object| object["bytes"].as_u64().expect("a number"))
            .sum();
        assert_eq!(of_run, stage["bytes"].as_u64().expect("a number"), "{stage}");
        if stage["name"] != "entry" {
            assert_eq!(traced["visits"], 50, "{stage}");
            assert!(traced["stack"].as_u64() >= stage["stack"].as_u64(), "{stage}");
        }
    }
    assert!(
        memwalk("--dot", "1000").contains("[label=\"fill_body\\n9668 bytes\\n9668 in a run\"]")
    );
    let early: Value = serde_json::from_str(&memwalk("--json", "7")).expect("JSON");
    assert_eq!(early["stages"][1]["traced"]["visits"], 8);
    // The output is the input of the next tool.
    std::fs::write(folder.path().join("tux.json"), memwalk("--json", "7")).expect("a file");
    stingy(folder.path(), &["stingygen", "tux.json"]);
}

#[test]
fn memory_is_that_of_the_stage_and_the_object() {
    for level in ["-O0", "-O2"] {
        let Some(folder) = built("tests/data/traced.c", "tests/data/traced.toml", &[level]) else {
            return;
        };
        let memwalk = |rest: &[&str]| {
            let arguments = [&["memwalk", "traced.toml"], rest, &["--", "./traced", "10"]].concat();
            stingy(folder.path(), &arguments)
        };
        let analysis: Value = serde_json::from_str(&memwalk(&["--json"])).expect("JSON");
        let expected: [(&str, u64, u64, &[&str]); 5] = [
            ("entry", 32, 0, &["connection 32"]),
            ("READ", 4128, 0, &["connection 32", "connection.buffer 4096"]),
            ("PARSE", 4228, 0, &["connection 32", "connection.buffer 4096", "header 100"]),
            // The buffer becomes smaller, and the name has 7 bytes.
            ("WRITE", 4228, 7, &["connection 32", "connection.buffer 4096", "header 100"]),
            ("CLOSE", 196, 7, &["connection 32", "connection.buffer 64", "header 100"]),
        ];
        for (name, bytes, elsewhere, of_objects) in expected {
            let stages = analysis["stages"].as_array().expect("stages");
            let stage = stages.iter().find(|stage| stage["name"] == name).expect("the stage");
            let traced = &stage["traced"];
            assert_eq!(traced["bytes"], bytes, "{level}: {stage}");
            assert_eq!(traced["elsewhere"], elsewhere, "{level}: {stage}");
            assert_eq!(objects(stage), of_objects, "{level}: {stage}");
            assert!(bytes <= stage["bytes"].as_u64().expect("a number"), "{level}: {stage}");
            if name != "entry" {
                assert_eq!(traced["visits"], 10, "{level}: {stage}");
            }
        }
        let place = json!([{ "at": { "file": "traced.c", "line": 48 }, "bytes": 7 }]);
        assert_eq!(analysis["elsewhere"], place, "{level}");
        let text = memwalk(&[]);
        let row = text.lines().find(|line| line.starts_with("CLOSE") && line.contains("196 / "));
        assert!(
            row.is_some_and(|row| row.contains(" connection 32/32 connection.buffer 64/4096 ")),
            "{text}"
        );
        assert!(text.contains("\n7 traced.c:48\n"), "{text}");
    }
}

#[test]
fn another_thread_may_take_the_memory_of_a_block_that_moves() {
    let Some(folder) = built("tests/data/traced.c", "tests/data/traced.toml", &[]) else { return };
    copy("tests/data/taken.c", folder.path());
    let sources = ["-g", "-rdynamic", "-pthread", "-o", "traced", "traced.c", "taken.c"];
    run(folder.path(), "gcc", &sources);
    let arguments = ["memwalk", "traced.toml", "--json", "--", "./traced", "1"];
    let analysis: Value = serde_json::from_str(&stingy(folder.path(), &arguments)).expect("JSON");
    let stages = analysis["stages"].as_array().expect("stages");
    let stage = stages.iter().find(|stage| stage["name"] == "CLOSE").expect("the stage");
    let bytes = |of: &str| stage["traced"][of].as_u64().expect("a number");
    // The objects, the name, and the blocks of the other thread, which count as those of the first thread's place.
    let all = 32 + 64 + 100 + 7 + 4096 + 10 + 20;
    assert_eq!(bytes("bytes") + bytes("elsewhere"), all, "{stage}");
}

#[test]
fn runs_that_show_nothing_are_errors() {
    let Some(folder) = built("tests/data/traced.c", "tests/data/traced.toml", &[]) else { return };
    let error = |program: &str| {
        let arguments = ["memwalk", "traced.toml", "--", program, "0"];
        let output = output(folder.path(), env!("CARGO_BIN_EXE_phalanx-stingy"), &arguments);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let source = "#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }\n";
    std::fs::write(folder.path().join("other.c"), source).expect("a source");
    run(folder.path(), "gcc", &["-g", "-o", "other", "other.c"]);
    let other = error("./other");
    assert!(other.contains("no code of the stages was executed"), "{other}");
    run(folder.path(), "gcc", &["-g", "-static", "-o", "static", "traced.c"]);
    let statically = error("./static");
    assert!(statically.contains("link the program dynamically"), "{statically}");
    run(folder.path(), "gcc", &["-o", "bare", "traced.c"]);
    let bare = error("./bare");
    assert!(bare.contains("no line table; build it with `-g`"), "{bare}");
}
