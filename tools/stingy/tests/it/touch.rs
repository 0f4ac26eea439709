use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::{copy, is_installed, output, run, stingy};

/// The row of a stage.
fn row<'r>(report: &'r Value, stage: &str) -> &'r Value {
    let rows = report["rows"].as_array().expect("rows");
    rows.iter().find(|row| row["stage"] == stage).expect("the stage")
}

#[test]
fn known_accesses_are_counted_exactly() {
    if !is_installed("gcc") || !is_installed("valgrind") {
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
fn lines_are_those_of_the_accessed_memory_and_symbols() {
    if !is_installed("gcc") || !is_installed("valgrind") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    copy("tests/data/touch_lines.c", folder.path());
    run(folder.path(), "gcc", &["-O1", "-g", "-o", "server", "touch_lines.c"]);
    let stages = ["clear", "copy", "count"].map(|name| format!("--stage={name}={name}"));
    let rest = ["--skip", "4", "--requests", "8", "--json", "--", "./server"];
    let arguments: Vec<&str> =
        ["touch"].into_iter().chain(stages.iter().map(String::as_str)).chain(rest).collect();
    let report: Value = serde_json::from_str(&stingy(folder.path(), &arguments)).expect("JSON");
    // An instruction that stores many words is no call, behind which the heap would be the stack.
    for (stage, heap, stack) in [("clear", 10.0, 1.0), ("copy", 6.0, 5.0), ("count", 0.0, 1.0)] {
        let found = ["heap", "stack"].map(|kind| row(&report, stage)[kind].as_f64());
        assert_eq!(found, [Some(heap), Some(stack)], "{stage}: {report}");
    }
    // Other symbols begin in the same lines, and before.
    let count = row(&report, "count");
    for (kind, name) in [("functions", "count"), ("variables", "used")] {
        assert_eq!(count[kind], serde_json::json!([{ "name": name, "lines": 1.0 }]));
    }
}

#[test]
fn functions_that_do_not_exist_are_reported() {
    if !is_installed("gcc") {
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

#[test]
fn programs_are_found_through_links() {
    if !is_installed("gcc") || !is_installed("valgrind") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    copy("tests/data/touch.c", folder.path());
    run(folder.path(), "gcc", &["-O1", "-o", "server", "touch.c"]);
    std::fs::create_dir(folder.path().join("bin")).expect("a folder");
    symlink("../server", folder.path().join("bin/linked")).expect("a link");
    let path = std::env::var("PATH").expect("text");
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx-stingy"));
    command.args(["touch", "--stage", "parse=parse", "--json", "--", "linked"]);
    let path = format!("{}:{path}", folder.path().join("bin").display());
    let output = command.current_dir(folder.path()).env("PATH", path).output().expect("the tool");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(row(&report, "parse")["visits"], 10);
}

#[test]
fn a_function_belongs_to_the_stage_that_states_most_of_its_name() {
    if !is_installed("gcc") || !is_installed("valgrind") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(
        folder.path().join("a.c"),
        "void inner(void) __asm__(\"outer.inner\");\nvoid inner(void) { __asm__ volatile(\"\"); }\n\
         void outer(void) { inner(); }\nint main(void) { outer(); outer(); return 3; }\n",
    )
    .expect("a source");
    run(folder.path(), "gcc", &["-O0", "-o", "a", "a.c"]);
    let touch = |stages: [&str; 2], rest: &[&str]| {
        let stages = ["--stage", stages[0], "--stage", stages[1], "--json"];
        let arguments = [&["touch"], &stages[..], rest, &["--", "./a"]].concat();
        output(folder.path(), env!("CARGO_BIN_EXE_phalanx-stingy"), &arguments)
    };
    let stages = ["outer=outer", "inner=outer.inner"];
    let found = touch(stages, &[]);
    let report: Value = serde_json::from_slice(&found.stdout).expect("JSON");
    assert_eq!(row(&report, "inner")["visits"], 2);
    let error = |output: Output| {
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let duplicate = error(touch(["outer=outer", "again=outer"], &[]));
    assert!(duplicate.contains("another stage contains `outer"), "{duplicate}");
    // The program ends with 3.
    let skipped_all = error(touch(stages, &["--skip=9"]));
    assert!(skipped_all.contains("before the program ended (exit status: 3)"), "{skipped_all}");
    error(touch(stages, &["--requests=0"]));
}

#[test]
fn a_signal_ends_an_idle_program() {
    if !is_installed("gcc") || !is_installed("valgrind") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let source = "#include <stdio.h>\n#include <unistd.h>\nvoid work(void) { __asm__ volatile(\"\"); }\n\
        int main(void) { for (int i = 0; i < 10; i++) work(); printf(\"%d\\n\", getpid()); fflush(stdout); pause(); }\n";
    std::fs::write(folder.path().join("idle.c"), source).expect("a source");
    run(folder.path(), "gcc", &["-o", "idle", "idle.c"]);
    for signal in ["-TERM", "-INT"] {
        let mut touch = Command::new(env!("CARGO_BIN_EXE_phalanx-stingy"))
            .current_dir(folder.path())
            .args(["touch", "--stage", "work=work", "--json", "--", "./idle"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("phalanx-stingy");
        let mut lines = BufReader::new(touch.stderr.take().expect("a pipe")).lines();
        let program = lines.next().expect("a line").expect("text");
        run(folder.path(), "kill", &[signal, &touch.id().to_string()]);
        let mut report = String::new();
        let mut output = touch.stdout.take().expect("a pipe");
        output.read_to_string(&mut report).expect("text");
        assert!(touch.wait().expect("an exit").success());
        let report: Value = serde_json::from_str(&report).expect("JSON");
        assert_eq!(row(&report, "work")["visits"], 10, "{signal}");
        assert!(!Path::new("/proc").join(program).exists());
    }
}

#[test]
fn a_missing_valgrind_is_to_be_installed() {
    if !is_installed("gcc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    copy("tests/data/touch.c", folder.path());
    run(folder.path(), "gcc", &["-o", "server", "touch.c"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx-stingy"));
    command.args(["touch", "--stage", "a=main", "--", "./server"]);
    let output = command.current_dir(folder.path()).env("PATH", "").output().expect("the tool");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("install valgrind"), "{errors}");
}

/// The program `phalanx`: that of the environment, or the one that was built beside the tools.
fn web_server() -> Option<PathBuf> {
    let server_program = Path::new(env!("CARGO_BIN_EXE_phalanx-stingy")).with_file_name("phalanx");
    let program = std::env::var_os("PHALANX_BINARY").map_or(server_program, PathBuf::from);
    if !program.is_file() {
        eprintln!("SKIPPED: {} is not built; cargo build -p phalanx-cli", program.display());
        return None;
    }
    Some(program)
}

/// The lines that a request to the web server touches in each kind of memory.
fn lines_of_a_web_request(program: &Path, folder: &Path) -> [f64; 4] {
    let mut touch = Command::new(env!("CARGO_BIN_EXE_phalanx-stingy"))
        .args(["touch", "--json", "--skip", "20", "--requests", "40"])
        .args(["--stage", "respond=phalanx_web::respond::answer::respond", "--"])
        .arg(program)
        .arg("web")
        .arg(folder)
        .args(["--driver=poll", "--workers=1", "--listen=127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("phalanx-stingy");
    let mut errors = BufReader::new(touch.stderr.take().expect("a pipe")).lines();
    let address = errors.find_map(|line| {
        let line = line.expect("text");
        let (_, address) = line.split_once("http://")?;
        let address = address.split(|c: char| !c.is_ascii_digit() && !".:".contains(c)).next()?;
        address.parse::<SocketAddr>().ok()
    });
    let address = address.expect("the server prints its address");
    let printing = std::thread::spawn(move || errors.for_each(drop));
    let mut client = TcpStream::connect(address).expect("a connection");
    // The program is killed after the last request.
    let request = b"GET /page.html HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut answer = vec![0; 64 << 10];
    while client.write_all(request).is_ok() {
        // Head and body arrive together, or the body alone later.
        match client.read(&mut answer) {
            Ok(0) | Err(_) => break,
            Ok(_) => (),
        }
    }
    let output = touch.wait_with_output().expect("an exit");
    printing.join().expect("no panic");
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let request = row(&report, "request");
    assert_eq!(request["visits"].as_f64(), Some(40.0), "{report}");
    ["code", "stack", "static", "heap"].map(|kind| request[kind].as_f64().expect("a number"))
}

#[test]
fn two_runs_of_the_web_server_agree() {
    if std::env::var_os("PHALANX_TOUCH").is_none() {
        eprintln!("SKIPPED: takes a minute and a half of processor time; set PHALANX_TOUCH=1");
        return;
    }
    let Some(program) = web_server().filter(|_| is_installed("valgrind")) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("page.html"), "x".repeat(1_400)).expect("a page");
    let runs = std::thread::scope(|scope| {
        let run = || scope.spawn(|| lines_of_a_web_request(&program, folder.path()));
        [run(), run()].map(|run| run.join().expect("a report"))
    });
    let [first, second] = runs.map(|lines| lines.iter().sum::<f64>());
    eprintln!("lines of code, stack, static variables and heap: {runs:?}");
    assert!(first > 100.0, "{runs:?}");
    assert!((first / second - 1.0).abs() <= 0.05, "{runs:?}");
}
