//! `cargo xtask peers`: installs the programs that benchmarks compare with, in target/peers/bin.
//!
//! Versions are pinned. Servers that Debian packages are not built here; the task names the missing ones.

use std::path::Path;
use std::process::Command;

use crate::task::{self, Outcome};

/// Crates with a server, their versions, and whether their own lock files hold. Of rumqttd's, `metrics` 0.22.1 no
/// longer compiles.
const CRATES: [(&str, &str, bool); 2] =
    [("static-web-server", "2.44.1", true), ("rumqttd", "0.20.0", false)];
/// The comparison program of `phalanx-bench runtimes`.
const RUNTIMES: &str = "bench/peers/runtimes";
/// The servers of `phalanx-bench axum`, and those on other libraries.
const AXUM: &str = "bench/peers/axum-arms";
const HTTP: &str = "bench/peers/http-arms";
/// A server in Go: its package with a version, the name that `go install` gives it, and its own.
const MOCHI: [&str; 3] =
    ["github.com/mochi-mqtt/server/v2/cmd/docker@v2.7.9", "docker", "mochi-mqtt"];
/// Programs that Debian packages, and their packages.
const DEBIAN: [(&str, &str); 12] = [
    ("nginx", "nginx-light"),
    ("lighttpd", "lighttpd"),
    ("h2o", "h2o"),
    ("caddy", "caddy"),
    ("mosquitto", "mosquitto"),
    ("nats-server", "nats-server"),
    ("pg_ctlcluster", "postgresql"),
    ("apache2", "apache2"),
    ("memcached", "memcached"),
    ("redis-server", "redis-server"),
    ("redis-benchmark", "redis-tools"),
    ("valgrind", "valgrind"),
];

/// Installs every program, reports those that could not be installed, and fails if there are any.
pub(crate) fn run(root: &Path) -> Outcome {
    let target = task::target(root);
    let peers = target.join("peers");
    let mut failed = Vec::new();
    let cargo = || {
        let mut cargo = task::cargo(root);
        cargo.args(["install", "--root"]).arg(&peers);
        cargo.env("CARGO_TARGET_DIR", target.join("peers-build"));
        cargo
    };
    for (name, version, is_locked) in CRATES {
        let locked = is_locked.then_some("--locked");
        failed.extend(install(name, cargo().args(locked).arg(format!("{name}@{version}"))));
    }
    let runtimes = root.join(RUNTIMES);
    failed.extend(install("phalanx-runtimes", cargo().args(["--locked", "--path"]).arg(runtimes)));
    let axum = root.join(AXUM);
    failed.extend(install("phalanx-axum-arms", cargo().args(["--locked", "--path"]).arg(axum)));
    let http = root.join(HTTP);
    failed.extend(install("phalanx-http-arms", cargo().args(["--locked", "--path"]).arg(http)));
    failed.extend(mochi(&peers.join("bin")));
    let is_missing = |(program, _): &&(&str, &str)| task::find(program).is_none();
    let missing: Vec<&str> =
        DEBIAN.iter().filter(is_missing).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        println!("not installed: apt-get install {}", missing.join(" "));
    }
    for reason in &failed {
        eprintln!("xtask peers: {reason}");
    }
    Ok(failed.is_empty())
}

/// Runs a command that installs `name`; returns the reason if it fails.
fn install(name: &str, command: &mut Command) -> Option<String> {
    match command.status() {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!("{name} is not installed: {status}")),
        Err(error) => {
            Some(format!("{name} is not installed: {}: {error}", command.get_program().display()))
        }
    }
}

/// Installs mochi-mqtt, unless it is there; `go install` does not rename it.
fn mochi(bin: &Path) -> Option<String> {
    let [package, built, name] = MOCHI;
    if bin.join(name).is_file() {
        return None;
    }
    let failed = install(name, Command::new("go").args(["install", package]).env("GOBIN", bin));
    let renamed = || std::fs::rename(bin.join(built), bin.join(name));
    failed.or_else(|| renamed().err().map(|error| format!("{name}: {error}")))
}
