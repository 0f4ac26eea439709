//! Runs `bench web --quick` and other benchmarks of servers.
//!
//! If `PHALANX_EXECUTABLE` names a `phalanx`, it is measured. Otherwise this program provides the subcommands
//! defined in this crate, and the web server is left out.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::{CommandFactory, Parser};
use phalanx_bench::cli::Cli;
use phalanx_bench::error::Error;
use phalanx_bench::experiments::web::{self, Options, Scene};
use phalanx_bench::experiments::{dial, figure6, light, overload, placement};
use phalanx_bench::system::procfs::family;

#[derive(Parser)]
struct Line<O: clap::Args> {
    #[command(flatten)]
    options: O,
}

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(name) if Cli::command().find_subcommand(name).is_some() => Cli::parse().run(),
        Some("--list") => {
            println!("all_servers_are_measured: test");
            ExitCode::SUCCESS
        }
        _ if !cfg!(target_os = "linux") => ExitCode::SUCCESS,
        _ => {
            all_servers_are_measured();
            scenes_run();
            scenes_with_tls_negotiate_it(Scene::Tls, 2);
            scenes_with_tls_negotiate_it(Scene::Site, 1);
            no_process_is_left_behind();
            partial_results_are_reported();
            the_other_benchmarks_run();
            ExitCode::SUCCESS
        }
    }
}

fn options<O: clap::Args>(arguments: &[&str]) -> O {
    let words = ["bench", "--quick"].iter().chain(arguments);
    Line::parse_from(words).options
}

fn all_servers_are_measured() {
    let executable = std::env::var_os("PHALANX_EXECUTABLE").map(PathBuf::from);
    let only = match executable {
        Some(_) => "--only=phalanx,floor,twin,fibres,nginx,lighttpd,h2o,caddy,sws",
        None => "--only=floor,twin,fibres,nginx,lighttpd,h2o,caddy,sws",
    };
    let mut options: Options = options(&[only]);
    options.runner.setup.phalanx = executable.clone();
    let report = web::run(&options).unwrap_or_else(|error| panic!("{error}"));
    println!("{report}");
    let rows = |server: &str| report.rows.iter().filter(|row| row.server == server).count();
    // With 16 and with 64 connections, on each driver.
    let drivers =
        1 + usize::from(phalanx_driver::choose(phalanx::runtime::DriverChoice::Uring).is_ok());
    assert_eq!((rows("floor"), rows("twin"), rows("fibres")), (2 * drivers, 2, 2));
    assert_eq!(rows("phalanx"), if executable.is_some() { 2 * drivers } else { 0 });
    for (peer, version) in &report.peers {
        assert_eq!(rows(peer), if version.is_some() { 2 } else { 0 });
    }
    for row in &report.rows {
        assert!(row.cpu_us_per_request_min > 0.0 && row.rps > 0.0, "{row:?}");
        assert!(row.cpu_us_per_request_min <= row.cpu_us_per_request_median, "{row:?}");
        assert_eq!((row.slices, row.noisy_slices, row.failed), (2, 0, 0), "{row:?}");
    }
    assert_eq!(report.phalanx_over_floor.is_some(), executable.is_some());
    assert!(report.growth.iter().all(|growth| growth.connections == [16, 64]));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(report.missing, []);
    for key in ["rows", "phalanx_over_nginx", "twin_over_phalanx", "machine", "peers"] {
        assert!(json.get(key).is_some(), "{key}");
    }
    assert_eq!(
        family(std::process::id()).unwrap(),
        [std::process::id()],
        "all processes have exited"
    );
}

/// Other scenes, with the servers that start fastest.
fn scenes_run() {
    for (scene, connections) in [(Scene::Pipelined, 16), (Scene::Medium, 16), (Scene::Cold, 64)] {
        let mut options: Options = options(&["--only=floor,twin,nginx"]);
        options.scenes = vec![scene];
        let report = web::run(&options).unwrap_or_else(|error| panic!("{scene}: {error}"));
        println!("{report}");
        assert!(report.rows.iter().all(|row| row.connections == connections && row.scene == scene));
        let floor = report.rows.iter().any(|row| row.server == "floor");
        assert_eq!(floor, scene == Scene::Pipelined, "it has a single answer");
        assert_eq!(report.phalanx_over_nginx, None);
    }
}

/// All servers with TLS use it, and send the same files; the floor and the twin have none.
fn scenes_with_tls_negotiate_it(scene: Scene, per_server: usize) {
    let executable = std::env::var_os("PHALANX_EXECUTABLE").map(PathBuf::from);
    let mut options: Options = options(&["--only=phalanx,floor,twin,nginx,lighttpd,h2o,caddy"]);
    if executable.is_none() {
        options.only.remove(0);
    }
    options.runner.setup.phalanx = executable.clone();
    options.scenes = vec![scene];
    let report = match web::run(&options) {
        // None of the peers is installed.
        Err(Error::NoServers) => return,
        report => report.unwrap_or_else(|error| panic!("{error}")),
    };
    println!("{report}");
    for (peer, version) in &report.peers {
        let rows = report.rows.iter().filter(|row| row.server == *peer).count();
        // lighttpd has it in a separate package.
        let can = version.is_some() && !["sws", "lighttpd"].contains(peer);
        assert!(rows == per_server || !can && rows == 0, "{peer}: {rows}");
    }
    assert_eq!(report.rows.iter().any(|row| row.server == "phalanx"), executable.is_some());
    assert!(report.rows.iter().all(|row| row.tls.is_some() && row.cpu_us_per_request_min > 0.0));
    assert!(report.rows.iter().all(|row| !["floor", "twin"].contains(&row.server)));
}

fn no_process_is_left_behind() {
    // The other servers are running when the last one fails to start.
    let mut broken: Options = options(&[]);
    broken.runner.setup.phalanx = Some("/nonexistent".into());
    assert!(matches!(web::run(&broken), Err(Error::Server { .. })));
    assert!(matches!(web::run(&options(&["--only=iis"])), Err(Error::NoServers)));
    assert_eq!(
        family(std::process::id()).unwrap(),
        [std::process::id()],
        "all processes have exited"
    );
}

/// Interrupted in the second round of the first of two numbers of connections.
fn partial_results_are_reported() {
    let report = interrupted(
        "web --only=twin --connections=4,8 --slices=1000 --slice=0.1 --json",
        "slice 2 of 1000",
    );
    let slices = report["rows"][0]["slices"].as_u64().unwrap();
    assert!((1..1000).contains(&slices) && report["rows"].as_array().unwrap().len() == 1);
    let missing = serde_json::json!([
        { "scene": "small", "connections": 4, "slices": slices, "of": 1000 },
        { "scene": "small", "connections": 8, "slices": 0, "of": 1000 },
    ]);
    assert_eq!(report["missing"], missing);
    let report = interrupted(
        "overload --only=twin --connections=8 --loads=0.5 --small --slices=1000 --slice=0.1 --json",
        "round 2 of 1000",
    );
    let slices = report["rows"][0]["slices"].as_u64().unwrap();
    assert!((1..1000).contains(&slices));
    assert_eq!(report["partial"], serde_json::json!({ "rounds": slices, "of": 1000 }));
}

/// The report of a benchmark that is interrupted once it has printed `so_far`.
fn interrupted(arguments: &str, so_far: &str) -> serde_json::Value {
    let mut bench = Command::new(std::env::current_exe().unwrap())
        .args(arguments.split(' '))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(bench.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains(so_far)), "{arguments} goes on for long");
    let pid = rustix::process::Pid::from_raw(bench.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let said: Vec<String> = said.collect();
    let printed = bench.wait_with_output().unwrap();
    assert_eq!(printed.status.code(), Some(130), "{said:?}");
    serde_json::from_slice(&printed.stdout).unwrap()
}

fn the_other_benchmarks_run() {
    let executable = std::env::var_os("PHALANX_EXECUTABLE").map(PathBuf::from);
    let only = if executable.is_some() { "--only=phalanx,twin,nginx" } else { "--only=twin,nginx" };
    let mut asked: overload::Options = options(&[only]);
    asked.runner.setup.phalanx = executable.clone();
    let report = overload::run(&asked).unwrap_or_else(|error| panic!("{error}"));
    println!("{report}");
    let rows = |server: &str| report.rows.iter().filter(|row| row.server == server).count();
    assert_eq!((rows("twin"), rows("phalanx")), (2, if executable.is_some() { 2 } else { 0 }));
    assert!(report.rows.iter().all(|row| row.capacity > 0.0 && row.goodput_over_best <= 1.0));
    let json = serde_json::to_value(&report).unwrap();
    for key in ["goodput_at_2_over_best", "p99_ms", "shed_below_saturation", "unanswered", "rows"] {
        assert!(json.get(key).is_some(), "{key}");
    }
    let mut asked: figure6::Options = options(&[]);
    asked.runner.setup.phalanx = executable.clone();
    if executable.is_some() {
        let report = figure6::run(&asked).unwrap_or_else(|error| panic!("{error}"));
        println!("{report}");
        assert!(report.rows.iter().all(|row| row.rps > 0.0 && row.failed == 0), "{report}");
        assert!(report.twin_growth_over_phalanx.is_some());
        let mut asked: dial::Options = options(&[]);
        asked.runner.setup.phalanx = executable.clone();
        let report = dial::run(&asked).unwrap_or_else(|error| panic!("{error}"));
        println!("{report}");
        assert_eq!(report.rows.len(), 6 * 4);
        assert!(report.rows.iter().all(|row| row.p50_us > 0.0 && row.cpu_us_per_request > 0.0));
        let mut asked: placement::Options = options(&[]);
        asked.runner.setup.phalanx = executable.clone();
        let report = placement::run(&asked).unwrap_or_else(|error| panic!("{error}"));
        println!("{report}");
        assert_eq!(report.rows.len(), 2 * 2);
        assert!(report.rows.iter().all(|row| row.p99_us > 0.0 && row.cpu_us_per_request > 0.0));
    }
    let nobody: overload::Options = options(&["--only=lighttpd"]);
    assert!(matches!(overload::run(&nobody), Err(Error::NoServers)));
    if executable.is_some() {
        let mut asked: light::Options = options(&[]);
        asked.runner.setup.phalanx = executable;
        let report = light::run(&asked).unwrap_or_else(|error| panic!("{error}"));
        println!("{report}");
        assert!(report.rows.len() == 3 && report.p99_over_twin > 0.0);
    }
    assert_eq!(
        family(std::process::id()).unwrap(),
        [std::process::id()],
        "all processes have exited"
    );
}
