//! The order of threads, large transfers, and the counters.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};

use super::machine_is_suitable;
use super::run::{Server, compile, output};

/// The threads of `sites.c` that echo.
const ECHOING: u64 = 8;

#[test]
fn threads_at_the_same_place_run_in_cohorts() {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = compile(home.path(), "order").filter(|_| machine_is_suitable()) else {
        return;
    };
    for (order, expected) in [("cohort", "cohorts\n"), ("fifo", "in turn\n")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
        command.args(["threads", "--carriers", "1", "--order", order, "--"]).arg(&program);
        // On a busy machine the monitor sends threads home, some of them for good.
        let mut attempt = || String::from_utf8(output(&mut command).stdout).unwrap();
        let found: Vec<_> =
            (0..10).map(|_| attempt()).take_while(|found| found != expected).collect();
        assert!(found.len() < 10, "--order {order}: {found:?}");
    }
}

#[test]
fn large_transfers_are_complete_with_and_without_the_thread() {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = compile(home.path(), "sites").filter(|_| machine_is_suitable()) else {
        return;
    };
    let expected = output(&mut Command::new(&program));
    assert!(expected.status.success(), "{expected:?}");
    for option in ["--order=cohort", "--no-large-io"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
        command.args(["threads", "--carriers", "2", option, "--"]).arg(&program);
        assert_eq!(output(&mut command), expected, "{option}");
    }
}

#[test]
fn the_admin_address_serves_sites_to_top() {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = compile(home.path(), "sites").filter(|_| machine_is_suitable()) else {
        return;
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    // The address is in use.
    let with_admin = |address: SocketAddr| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
        command.args(["threads", "--carriers", "2", "--admin", &address.to_string(), "--"]);
        command.arg(&program);
        command
    };
    let refused = output(&mut with_admin(address));
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("--admin"));
    drop(listener);
    let mut command = with_admin(address);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = Server(command.spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let received = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("received")));
    assert_eq!(received.unwrap().unwrap(), "received 4194304, wrong 0");
    let url = format!("http://{address}");
    let body =
        ureq::get(format!("{url}/snapshot.json")).call().unwrap().into_body().read_to_string();
    let snapshot: serde_json::Value = serde_json::from_str(&body.unwrap()).unwrap();
    let stages: Vec<_> = snapshot["stages"].as_array().unwrap().iter().collect();
    let site = |kind: &str| stages.iter().position(|name| name.as_str().unwrap().starts_with(kind));
    for (kind, min) in [("read ", 100), ("lock ", 1)] {
        let site = site(kind).unwrap_or_else(|| panic!("no site of kind {kind} in {stages:?}"));
        let processors = snapshot["processors"].as_array().unwrap();
        assert_eq!(processors.len(), 2);
        let resumed =
            |carrier: &serde_json::Value| carrier["stages"][site]["resumed"]["count"].as_u64();
        let resumed: u64 = processors.iter().map(|carrier| resumed(carrier).unwrap()).sum();
        assert!(resumed >= min, "{kind}: {resumed}");
    }
    // The threads that echo wait. A thread may wait and continue on different carriers.
    let waiting = |kind: &str| -> u64 {
        let sites =
            (0..stages.len()).filter(|site| stages[*site].as_str().unwrap().starts_with(kind));
        let carriers = snapshot["processors"].as_array().unwrap();
        let all = sites.flat_map(|site| carriers.iter().map(move |each| &each["stages"][site]));
        all.map(|stage| stage["suspended_now"].as_u64().unwrap()).sum()
    };
    assert_eq!(waiting("lock "), 0);
    assert!((1..=ECHOING).contains(&waiting("read ")), "{}", waiting("read "));
    let counters = snapshot["counters"].as_array().unwrap();
    let parts = counters.iter().find(|each| each["name"] == "threads_large_io_parts").unwrap();
    assert!(parts["count"].as_u64().unwrap() > 0);
    let mut top = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    top.args(["top", "--once", "--every", "100ms", &address.to_string()]);
    let top = output(&mut top);
    assert!(top.status.success(), "{top:?}");
    assert!(String::from_utf8(top.stdout).unwrap().contains("read "), "no site in the table");
    let refused =
        ["page.example", "1.page.example", "localhost.page.example", "[::1].page.example"];
    let refused = refused.map(|host| ("/snapshot.json", host, 403));
    for (path, host, status) in [("/", "localhost", 404)].into_iter().chain(refused) {
        let error = ureq::get(format!("{url}{path}")).header("Host", host).call().unwrap_err();
        assert!(matches!(error, ureq::Error::StatusCode(code) if code == status), "{error}");
    }
    drop(server.0.stdin.take());
    assert!(server.0.wait().unwrap().success());
}
