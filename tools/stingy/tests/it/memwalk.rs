use serde_json::Value;
use tempfile::TempDir;

use crate::common::{CRATE_DIR, copy, is_installed, output, run, stingy};

/// The analysis of `tux.c`, compiled in a new folder.
fn tux() -> (TempDir, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["tux.c", "stingy.toml"] {
        copy(&format!("examples/tux/{file}"), folder.path());
    }
    run(folder.path(), "gcc", &["-O2", "-g", "-fstack-usage", "-o", "tux", "tux.c"]);
    let json = stingy(folder.path(), &["memwalk", "--json"]);
    (folder, serde_json::from_str(&json).expect("JSON"))
}

/// The strings at `key` of each element.
fn names<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    list.as_array().expect("a list").iter().map(|item| item[key].as_str().expect("text")).collect()
}

#[test]
fn the_stages_of_tux_are_found_in_order() {
    if !is_installed("gcc") {
        return;
    }
    let (folder, analysis) = tux();
    let stages = [
        "entry",
        "read_request",
        "parse_headers",
        "lookup_object",
        "check_access",
        "generate_header",
        "fill_body",
        "send_response",
        "log_request",
    ];
    assert_eq!(names(&analysis["stages"], "name"), stages);
    let mut edges: Vec<_> = names(&analysis["transitions"], "from")
        .into_iter()
        .zip(names(&analysis["transitions"], "to"))
        .collect();
    edges.sort_unstable();
    let mut expected: Vec<_> = stages.windows(2).map(|pair| (pair[0], pair[1])).collect();
    expected.sort_unstable();
    assert_eq!(edges, expected);
    assert_eq!(analysis["warnings"], Value::Array(Vec::new()));
    // The path is freed where the head is generated.
    let body = &analysis["stages"][6];
    assert_eq!(
        body["live"],
        serde_json::json!(["abuf", "context", "headers", "output", "tux_req"])
    );
    assert!(
        analysis["stages"].as_array().expect("stages")[1..]
            .iter()
            .all(|s| s["stack"].as_u64() > Some(0))
    );
    assert!(
        stingy(folder.path(), &["memwalk", "--dot"])
            .contains("\"fill_body\" -> \"send_response\";")
    );
}

#[test]
fn sizes_are_those_of_the_compiler() {
    if !is_installed("gcc") {
        return;
    }
    let (folder, analysis) = tux();
    let objects = analysis["objects"].as_array().expect("objects");
    assert_eq!(objects.len(), 7);
    let source = std::fs::read_to_string(folder.path().join("tux.c")).expect("the source");
    let mut probe = source.replace("int main(", "int other(");
    probe += "int main(void) {";
    for name in names(&analysis["objects"], "name") {
        probe += &format!("printf(\"{name} %zu\\n\", sizeof(struct {name}));");
    }
    std::fs::write(folder.path().join("probe.c"), probe + "}").expect("a probe");
    run(folder.path(), "gcc", &["-o", "probe", "probe.c"]);
    let printed = run(folder.path(), "./probe", &[]);
    let found: Vec<_> = objects
        .iter()
        .map(|object| format!("{} {}", object["name"].as_str().expect("a name"), object["bytes"]))
        .collect();
    assert_eq!(printed.lines().collect::<Vec<_>>(), found);
}

#[test]
fn states_and_constructs_that_are_not_understood_are_reported_with_their_lines() {
    if !is_installed("gcc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["states.c", "states.toml"] {
        copy(&format!("tests/data/{file}"), folder.path());
    }
    run(folder.path(), "gcc", &["-g", "-o", "states", "states.c"]);
    let text = stingy(folder.path(), &["memwalk", "states.toml"]);
    let expected = "\
stage           bytes    stack  objects (+ allocated, - freed, ? perhaps freed)
entry              48        -  +connection
STATE_READ       4144        -  connection +connection.buffer
STATE_CLOSE      4144        -  -connection connection.buffer connection.reply
STATE_PARSE      4272        -  connection ?connection.buffer +connection.reply +header
STATE_FLUSH      4272        -  connection connection.buffer connection.reply header
STATE_WRITE      4272        -  connection -connection.buffer ?connection.reply -header
";
    assert!(text.starts_with(expected), "{text}");
    let warnings = text.split_once("warnings\n").expect("warnings").1;
    let expected = "\
states.c:58: the size of `connection.reply` is determined at run time; state a bound in `[memory.sizes]`
states.c:61: call through `unknown`, to which no known function is assigned
states.c:74: not understood: the type of `scratch`, which is freed; free a pointer to a structure
states.c:86: the next stage, `(enum state)(wanted + 1)`, is not constant
";
    assert_eq!(warnings, expected);
}

#[test]
fn macros_tables_and_initializers_are_regarded() {
    if !is_installed("gcc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["styles.c", "styles.toml"] {
        copy(&format!("tests/data/{file}"), folder.path());
    }
    run(folder.path(), "gcc", &["-g", "-o", "styles", "styles.c"]);
    let json = stingy(folder.path(), &["memwalk", "styles.toml", "--json"]);
    let analysis: Value = serde_json::from_str(&json).expect("JSON");
    let edges = analysis["transitions"].as_array().expect("transitions").iter();
    let edges: Vec<String> = edges
        .map(|edge| ["from", "to", "function"].map(|key| edge[key].as_str().expect("text")))
        .map(|edge| edge.join(" "))
        .collect();
    let expected = [
        "AGAIN CLOSE drive",
        // A variable.
        "LOG AGAIN again",
        // An array with designators.
        "LOOKUP WRITE look_up",
        "PARSE LOOKUP drive",
        // A macro that calls another.
        "READ PARSE drive",
        // An initializer.
        "WRITE LOG drive",
        // The first state is that of zeroed memory.
        "entry READ loop",
    ];
    assert_eq!(edges, expected);
    let text = stingy(folder.path(), &["memwalk", "styles.toml"]);
    let expected = "\
stage      bytes    stack  objects (+ allocated, - freed, ? perhaps freed)
entry         64        -  +connection
READ         184        -  +buffer connection +-scratch
PARSE        224        -  buffer connection +context +-scratch
LOOKUP       224        -  buffer connection context +-scratch
WRITE        254        -  buffer connection ?context +-scratch +trace
LOG          254        -  buffer connection context +-scratch -trace
AGAIN        224        -  buffer connection context +-scratch
CLOSE        224        -  -buffer -connection context +-scratch
NEVER         20        -  +-scratch
";
    assert!(text.starts_with(expected), "{text}");
    let warnings = text.split_once("warnings\n").expect("warnings").1;
    let expected = "\
styles.c:91: `buffer` is allocated in a loop or several times; it counts once
styles.c:102: not understood: the macro `NEW` calls `malloc`; declare the macro in `memory.allocate`
styles.c:119: call through `unknown`, to which no known function is assigned
styles.c:126: `connection.name` is freed here, but its allocation is unknown, and it does not count; declare the allocating function in `memory.allocate`
styles.c:131: the next stage, `c->state++`, is not constant
styles.c:134: no path to `NEVER` was found; what requests hold there is unknown
";
    assert_eq!(warnings, expected);
}

#[test]
fn states_may_be_indexes_of_functions() {
    if !is_installed("gcc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    copy("tests/data/table.c", folder.path());
    let description = format!("{CRATE_DIR}/tests/data/states.toml");
    let toml = std::fs::read_to_string(description).expect("the description");
    let toml = toml.replace("states.c", "table.c").replace("\"states\"", "\"table\"");
    std::fs::write(folder.path().join("stingy.toml"), toml).expect("a file");
    run(folder.path(), "gcc", &["-g", "-o", "table", "table.c"]);
    let text = stingy(folder.path(), &["memwalk"]);
    let expected = "\
stage     bytes    stack  objects (+ allocated, - freed, ? perhaps freed)
entry        24        -  +connection
READ       4160        -  connection +connection.buffer +-context
WRITE      4160        -  connection -connection.buffer +-context
CLOSE        64        -  -connection +-context
";
    assert!(text.starts_with(expected), "{text}");
    assert!(!text.contains("warnings"), "{text}");
}

#[test]
fn members_may_contain_the_function_of_the_next_stage() {
    if !is_installed("gcc") || !is_installed("patch") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    copy("tests/data/members.c", folder.path());
    let toml = "sources = [\"members.c\"]\nprogram = \"members\"\n[stages]\nscheduler = \"loop\"\n\
                schedule = \"notify\"\nhandlers = [\"on_event\"]\n";
    std::fs::write(folder.path().join("stingy.toml"), toml).expect("a file");
    run(folder.path(), "gcc", &["-g", "-o", "members", "members.c"]);
    let text = stingy(folder.path(), &["memwalk"]);
    let expected = "\
stage        bytes    stack  objects (+ allocated, - freed, ? perhaps freed)
entry           40        -  +connection
on_read        104        -  connection +reply
on_write       104        -  connection -reply
on_close        40        -  -connection
";
    assert!(text.starts_with(expected), "{text}");
    assert!(!text.contains("warnings"), "{text}");
    let json = stingy(folder.path(), &["memwalk", "--json"]);
    std::fs::write(folder.path().join("members.json"), json).expect("a file");
    stingy(folder.path(), &["stingygen", "members.json"]);
    let output = output(folder.path(), env!("CARGO_BIN_EXE_phalanx-stingy"), &["stingify"]);
    let notes = String::from_utf8_lossy(&output.stderr);
    assert_eq!(notes, "the event loop is not changed, because members contain the stages\n");
    std::fs::write(folder.path().join("members.patch"), &output.stdout).expect("a file");
    run(folder.path(), "patch", &["-s", "-p1", "-i", "members.patch"]);
    let before = run(folder.path(), "./members", &[]);
    let flags = ["-Wall", "-Wextra", "-Werror", "-o", "patched", "members.c", "stingy.c"];
    run(folder.path(), "gcc", &flags);
    assert_eq!(run(folder.path(), "./patched", &[]), before);
}

#[test]
fn handlers_and_calls_through_pointers_are_followed() {
    if !is_installed("gcc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["handlers.c", "handlers_other.c", "handlers.toml"] {
        copy(&format!("tests/data/{file}"), folder.path());
    }
    run(folder.path(), "gcc", &["-g", "-o", "handlers", "handlers.c", "handlers_other.c"]);
    let json = stingy(folder.path(), &["memwalk", "handlers.toml", "--json"]);
    let analysis: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(analysis["warnings"], Value::Array(Vec::new()));
    let edges = analysis["transitions"].as_array().expect("transitions").iter();
    let edges: Vec<String> = edges
        .map(|edge| ["from", "to", "function"].map(|key| edge[key].as_str().expect("text")))
        .map(|edge| edge.join(" "))
        .collect();
    let expected = [
        // The loop executes one stage itself, and a static function in another file queues for it.
        "entry read_request loop",
        "entry write_pending loop",
        "entry write_pending again",
        // The table of commands.
        "read_request write_pending get",
        // A macro, and a parameter.
        "write_pending read_request again",
    ];
    assert_eq!(edges, expected);
    let stages = analysis["stages"].as_array().expect("stages");
    let read = stages.iter().find(|stage| stage["name"] == "read_request").expect("the stage");
    // `quit` calls a function through the name of a macro.
    assert_eq!(read["may_free"], serde_json::json!(["client", "client.reply"]));
}

#[test]
fn errors_name_the_file_and_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let fail = |arguments: &[&str]| {
        let tool = env!("CARGO_BIN_EXE_phalanx-stingy");
        let output = output(folder.path(), tool, arguments);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(fail(&["memwalk"]).contains("cannot read stingy.toml"));
    copy("examples/tux/stingy.toml", folder.path());
    copy("examples/tux/tux.c", folder.path());
    std::fs::write(folder.path().join("tux"), "#!/bin/sh").expect("a script");
    assert!(fail(&["memwalk"]).contains("tux: not an ELF program"));
    let toml = std::fs::read_to_string(folder.path().join("stingy.toml")).expect("the file");
    let lacks = toml.replace("event_loop", "no_loop");
    std::fs::write(folder.path().join("stingy.toml"), lacks).expect("a file");
    if !is_installed("gcc") {
        return;
    }
    run(folder.path(), "gcc", &["-o", "tux", "tux.c"]);
    assert!(fail(&["memwalk"]).contains("tux: the program has no debugging information"));
    run(folder.path(), "gcc", &["-g", "-o", "tux", "tux.c"]);
    let lacks = "stingy.toml: the sources define no function `no_loop`";
    assert!(fail(&["memwalk"]).contains(lacks));
    let spill = "[memory.spill]\nallocate = \"malloc\"\nfree = \"free\"\nsize = \"no_function\"\n";
    std::fs::write(folder.path().join("other.toml"), toml + spill).expect("a file");
    let expected = "other.toml: the program has no function `no_function`, which `spill` names";
    assert!(fail(&["memwalk", "other.toml"]).contains(expected));
}
