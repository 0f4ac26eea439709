//! The script for gdb shows the stacks of waiting threads.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::machine_is_suitable;
use super::run::{Server, compile, output, threads};

#[test]
fn a_debugger_shows_the_stacks_of_waiting_threads() {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = compile(home.path(), "parked").filter(|_| machine_is_suitable()) else {
        return;
    };
    let has_python = Command::new("gdb").args(["-batch", "-ex", "python print(6 * 7)"]).output();
    if !has_python.is_ok_and(|output| output.stdout == b"42\n") {
        return eprintln!("SKIPPED: there is no gdb with Python");
    }
    let mut command = threads(2, &program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = Server(command.spawn().unwrap());
    let line = BufReader::new(server.0.stdout.as_mut().unwrap()).lines().next();
    assert_eq!(line.unwrap().unwrap(), "ready");
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/gdb/phalanx-threads.py");
    // The threads may not wait yet.
    let mut text = String::new();
    for _ in 0..20 {
        let mut gdb = Command::new("gdb");
        gdb.args(["-q", "-batch", "-nx", "-p", &server.0.id().to_string(), "-x"]).arg(&script);
        gdb.args(["-ex", "info phalanx-threads", "-ex", "thread apply all backtrace"]);
        let output = output(&mut gdb);
        text = String::from_utf8_lossy(&output.stdout).into_owned();
        if String::from_utf8_lossy(&output.stderr).contains("ptrace:") {
            return eprintln!("SKIPPED: gdb may not attach to processes here");
        }
        if text.matches(" waits\n").count() == 2 {
            break;
        }
    }
    assert_eq!(text.matches(" waits\n").count(), 2, "{text}");
    for function in ["wait_for_the_mutex", "call_the_wait", "body"] {
        let frames = text.matches(&format!(" in {function} (")).count();
        assert_eq!(frames, 2, "{function}: {text}");
    }
    drop(server.0.stdin.take());
    assert!(server.0.wait().unwrap().success());
}
