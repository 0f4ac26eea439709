//! `phalanx profile`, and a server that uses what it measured.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

use phalanx_testkit::eventually;
use phalanx_testkit::http::get;
use phalanx_testkit::process::{Process, Signal};
use phalanx_testkit::tcp::unique_loopback;
use serde_json::Value;

use crate::server::{Server, bare};

const PHALANX: &str = env!("CARGO_BIN_EXE_phalanx");

fn web(command: &mut Command, address: &str, root: &Path) {
    command.arg("web").arg(root).args(["--workers", "2", "--max-queue-delay", "0"]);
    command.args(["--listen", &format!("http://{address}")]);
}

/// Measures one and two workers, once.
fn profile(load: &str, out: &Path, address: &str, root: &Path) -> Output {
    let mut command = bare();
    command.args(["profile", "--load", load, "--rounds", "1", "--spin", "20us"]);
    command.args(["--batch-delay", "0s", "--out"]).arg(out).arg("--").arg(PHALANX);
    web(&mut command, address, root);
    command.output().unwrap()
}

#[test]
fn a_load_is_measured_and_its_profile_used() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("profile.json");
    let address = format!("{}:8080", unique_loopback());
    std::fs::write(folder.path().join("file"), "content").unwrap();
    let load = format!("curl -sf -o /dev/null 'http://{address}/file?[1-300]' && echo p99 2 ms");
    let output = profile(&load, &out, &address, folder.path());
    let (stderr, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}");
    assert!(stderr.contains("p99 µs") && errors.contains("2 of 2"), "{stderr}\n{errors}");
    let text = std::fs::read_to_string(&out).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let peak = &file["mixes"][0]["peak"];
    assert_eq!((&peak["active"], &peak["p99_us"]), (&2.into(), &2000.0.into()));
    assert!(peak["bytes_in_per_operation"].as_f64().unwrap() > 1.0, "{peak}");

    // A profile that was measured with another kernel and driver is used, with a warning.
    let kernel = file["host"]["kernel"].as_str().unwrap();
    let driver = file["driver"].as_str().unwrap();
    let text = text.replace(kernel, "another").replace(&format!("{driver:?}"), "\"other\"");
    std::fs::write(&out, text).unwrap();
    let mut command = bare();
    command.args(["web", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "2"]);
    command.arg(folder.path()).arg("--profile").arg(&out);
    let server = Server::launch(command);
    let report: Value =
        serde_json::from_slice(&get(server.admin(), "/placement.json").body).unwrap();
    assert_eq!((&report["mode"], &report["max"]), (&"on".into(), &2.into()));
    assert_eq!(report["profile"]["mixes"].as_array().unwrap().len(), 1);
    let foreign = &report["profile"]["foreign"];
    assert!(foreign[0].as_str().unwrap().contains("another"), "{report}");
    assert_eq!(foreign[1], format!("driver \"other\", here {driver:?}"));
    assert!(server.stderr().contains("measured on another machine"), "{}", server.stderr());
}

#[test]
fn mixes_have_names_and_a_missing_p99_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("profile.json");
    let address = format!("{}:8080", unique_loopback());
    std::fs::write(folder.path().join("file"), "content").unwrap();
    let load = format!("curl -sf -o /dev/null 'http://{address}/file?[1-300]'");
    let profile = |names: &[&str]| {
        let mut command = bare();
        command.args(["profile", "--load", &load, "--rounds", "1", "--spin", "20us"]);
        command.args(["--active", "2", "--batch-delay", "0s", "--out"]).arg(&out);
        command.args(names).arg("--").arg(PHALANX);
        web(&mut command, &address, folder.path());
        command.output().unwrap()
    };
    let output = profile(&["--name", "night"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("mix \"night\" prints no p99"), "{errors}");
    let file: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_eq!(file["mixes"][0]["name"], "night");
    let output = profile(&["--name", "day", "--name", "night"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("2 names and 1 loads"), "{errors}");
}

/// The command that generates the load fails once.
#[test]
fn a_run_that_fails_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let (out, marker) = (folder.path().join("profile.json"), folder.path().join("marker"));
    let address = format!("{}:8080", unique_loopback());
    std::fs::write(folder.path().join("file"), "content").unwrap();
    let load = format!(
        "test -e {0} || {{ touch {0}; exit 9; }}; curl -sf -o /dev/null 'http://{address}/file?[1-300]'",
        marker.display()
    );
    let output = profile(&load, &out, &address, folder.path());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && out.exists(), "{errors}");
    assert!(errors.contains("exit status: 9") && errors.contains("repeating"), "{errors}");
}

#[test]
fn a_signal_ends_the_measured_program() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("profile.json");
    let address = format!("{}:8080", unique_loopback());
    for signal in [Signal::TERM, Signal::HUP] {
        let mut command = bare();
        command.args(["profile", "--load", "sleep 5", "--rounds", "1", "--out"]).arg(&out);
        web(command.arg("--").arg(PHALANX), &address, folder.path());
        let mut profile = Process::start(command);
        eventually("the program", || TcpStream::connect(&address).ok());
        profile.signal(signal);
        eventually("its end", || TcpStream::connect(&address).err());
        assert!(!profile.exit().success());
    }
}

#[test]
fn failures_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (out, address) =
        (folder.path().join("profile.json"), format!("{}:8080", unique_loopback()));
    let error = |output: Output| {
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let stderr = error(profile("echo no route >&2; exit 7", &out, &address, folder.path()));
    assert!(stderr.contains("no route") && stderr.contains("exit status: 7"), "{stderr}");
    let stderr = error(profile("true", &out, &address, folder.path()));
    assert!(stderr.contains("fewer than 50 operations"), "{stderr}");
    // An unusable output path is reported before the first run, which would fail here.
    for place in [&folder.path().join("missing/file"), folder.path(), Path::new("/dev/null")] {
        let stderr = error(profile("true", place, &address, folder.path()));
        assert!(stderr.contains("cannot write") && !stderr.contains("operations"), "{stderr}");
    }
    // A file with the name of the temporary one is kept.
    let theirs = folder.path().join("profile.json.new");
    std::fs::write(&theirs, "theirs").unwrap();
    let stderr = error(profile("true", &out, &address, folder.path()));
    assert!(stderr.contains("profile.json.new exists; remove it"), "{stderr}");
    assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "theirs");
    std::fs::remove_file(theirs).unwrap();
    let mut command = bare();
    command.args(["profile", "--load", "true", "--out"]).arg(&out).args(["--", "false"]);
    let stderr = error(command.output().unwrap());
    assert!(stderr.contains("false ended with"), "{stderr}");
    assert!(!out.exists(), "nothing was written");

    std::fs::write(&out, "{}").unwrap();
    let mut command = bare();
    web(&mut command, &address, folder.path());
    command.arg("--profile").arg(&out);
    let stderr = error(command.output().unwrap());
    assert!(stderr.contains("profile.json: not a profile"), "{stderr}");
}
