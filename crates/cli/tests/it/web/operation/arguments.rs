//! The command line: error messages, exit codes and output streams.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use phalanx_testkit::TIMEOUT;
use phalanx_testkit::http::get;
use phalanx_testkit::site::Site;

use crate::server::{Server, bare};

/// Runs the command to its exit: exit code, stdout and stderr. Fails after a timeout.
fn run(command: &mut Command) -> (Option<i32>, String, String) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > TIMEOUT {
            child.kill().unwrap();
            panic!("timeout of {command:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn web(arguments: &[&str]) -> (Option<i32>, String, String) {
    let free = ["--listen", "127.0.0.1:0"];
    let free = &free[..if arguments.contains(&"--listen") { 0 } else { 2 }];
    run(bare().arg("web").args(arguments).args(free))
}

/// A port alone implies the loopback.
#[test]
fn a_port_alone() {
    let site = Site::new();
    let mut command = bare();
    command.arg("web").arg(site.root()).args(["--listen", "0", "--workers", "1"]);
    let server = Server::launch(command);
    assert_eq!(server.address.ip(), Ipv4Addr::LOCALHOST);
    assert_eq!(get(server.address, "/none").status, 404);
}

/// The server behind the proxy is another one of this kind.
#[test]
fn paths_are_passed_to_another_server() {
    let (front, back) = (Site::new(), Site::new());
    for (site, name, text) in [(&front, "own.txt", "own"), (&back, "api.txt", "passed")] {
        fs::write(site.root().join(name), text).unwrap();
    }
    let launch = |arguments: &[&str]| {
        let mut command = bare();
        command.arg("web").args(arguments).args(["--listen", "0", "--workers", "1"]);
        Server::launch(command)
    };
    let back_server = launch(&[back.root().to_str().unwrap()]);
    let rule = format!("/api.txt=http://{}", back_server.address);
    let server = launch(&[front.root().to_str().unwrap(), "--proxy", &rule]);
    assert_eq!(get(server.address, "/own.txt").text(), "own");
    assert_eq!(get(server.address, "/api.txt").text(), "passed");
}

#[test]
fn bad_arguments_are_named() {
    // (arguments, text in the message)
    let table: &[(&[&str], &str)] = &[
        (&["--listen", "nonsense"], "--listen"),
        (&["--listen", "127.0.0.1"], "--listen"),
        (&["--listen", "127.0.0.1:99999"], "--listen"),
        (&["--listen", "localhost"], "--listen"),
        (&["--listen", ":8080"], "[::]:8080"),
        (&["--listen", "*:8080"], "[::]:8080"),
        (&["--listen", "https://99999"], "\"localhost:8080\""),
        (&["--proxy", "/api=127.0.0.1:3000"], "expected a URL such as http://127.0.0.1:3000"),
        (&["--proxy", "api/=http://127.0.0.1:3000"], "expected a path such as \"/api\""),
        (&["--workers", "0"], "--workers"),
        (&["--workers", "1025"], "--workers"),
        (&["--workers", "two"], "--workers"),
        (&["--driver", "epoll"], "--driver"),
        (&["--cache", "much"], "--cache"),
        (&["--cache", "1T"], "--cache"),
        (&["--cache", "-1"], "-1"),
        (&["--max-connections", "x"], "--max-connections"),
        (&["--max-connections", "0"], "--max-connections"),
        (&["--request-timeout", "0"], "--request-timeout"),
        (&["--idle-timeout", "5"], "--idle-timeout: idle-timeout: found \"5\", expected a time"),
        (&["--root", "a", "b"], "--root"),
        (
            &["--tls-certificate", "c"],
            "--tls-certificate: host.tls: `key` is missing; use --tls-key",
        ),
        (&["--tls"], "--tls: host.tls: `certificate` is missing; use --tls-certificate"),
        (&["--access-log=x"], "true or false; use --access-log-format or --access-log-target"),
        (&["--tls-certificate", "c", "--tls-key", "k"], "listen on https://"),
        (&["--pin=no"], "--pin: runtime.pin: found \"no\", expected true or false"),
        (&["--error-pages", "200=a"], "400 to 599"),
        (&["--error-pages", "404"], "404=404.html"),
        (&["--error-pages", "500="], "no file"),
        (&["--idle-timeout", "0"], "--idle-timeout"),
        (&["--shutdown-timeout", "-5"], "-5"),
        (&["--spin", "x"], "--spin"),
        (&["--admin", "9"], "--admin"),
        (&["--admin", "0.0.0.0:0"], "--admin-public"),
        (&["--admin", "192.0.2.1:9000"], "--admin-public"),
        (&["--admin", "[::]:0"], "--admin-public"),
        (&["--nonsense"], "--nonsense"),
        (&["a", "b"], "'b'"),
    ];
    for (arguments, name) in table {
        let (code, stdout, stderr) = web(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
        assert_eq!(stdout, "", "{arguments:?}");
        assert!(stderr.contains(name), "{arguments:?}: {stderr}");
        let message = stderr.lines().filter(|line| line.contains("error:"));
        assert!(message.count() <= 1 && !stderr.contains("panicked"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_value_that_is_taken_for_the_directory_is_explained() {
    let (code, _, stderr) = web(&["--access-log", "no-combined"]);
    let explained = "phalanx: no-combined is taken for DIRECTORY; to set a value, use --access-log=VALUE or \
                     --access-log-format or --access-log-target\n";
    assert!(code == Some(1) && stderr.starts_with(explained), "{code:?} {stderr}");
    // Other words before a directory.
    let (_, _, stderr) = web(&["--spin", "0s", "no-such"]);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let site = Site::new();
    let (code, _, stderr) = web(&["--check", "--access-log", site.root().to_str().unwrap()]);
    assert_eq!((code, &stderr[..]), (Some(0), ""));
}

#[test]
fn the_environment_is_named_too() {
    let (code, stdout, stderr) =
        run(bare().args(["web", "--listen", "127.0.0.1:0"]).env("PHALANX_WEB_WORKERS", "none"));
    assert_eq!((code, &stdout[..]), (Some(2), ""));
    assert!(stderr.contains("none") && stderr.contains("PHALANX_WEB_WORKERS"), "{stderr}");
    // All errors of all sources are reported together.
    let (code, _, stderr) = run(bare()
        .args(["web", "--spin", "x", "--set", "cash=1"])
        .env("PHALANX_WEB_WORKERS", "none"));
    let errors: Vec<_> = stderr.lines().collect();
    assert_eq!((code, errors.len()), (Some(2), 3), "{stderr}");
    for place in ["--set cash:1:1: ", "--spin: ", "PHALANX_WEB_WORKERS: runtime.workers: "] {
        let start = format!("phalanx: {place}");
        assert!(errors.iter().any(|line| line.starts_with(&start)), "{place}: {stderr}");
    }
    for (word, listing) in [("true", true), ("false", false)] {
        let (code, stdout, stderr) =
            run(bare().args(["web", "--print-config"]).env("PHALANX_WEB_LISTING", word));
        assert_eq!((code, &stderr[..]), (Some(0), ""), "{word}");
        assert!(stdout.contains(&format!("listing = {listing}\n")), "{word}: {stdout}");
    }
    let (code, _, stderr) =
        run(bare().args(["web", "--print-config"]).env("PHALANX_WEB_LISTING", "perhaps"));
    assert!(code == Some(2) && stderr.contains("PHALANX_WEB_LISTING"), "{stderr}");
    // It also serves: here the current directory.
    let site = Site::new();
    site.file("file", "content");
    let mut command = bare();
    command.arg("web").current_dir(site.root()).env("PHALANX_WEB_LISTEN", "127.0.0.1:0");
    let server = Server::launch(command);
    assert_eq!(get(server.address, "/file").body, b"content");
}

#[test]
fn unavailable_resources_are_reported_in_one_line() {
    let site = Site::new();
    let root = site.root();
    let root = root.to_str().unwrap();
    site.file("file", "");
    let file = format!("{root}/file");
    let missing = format!("{root}/missing");
    let occupied = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let occupied = occupied.local_addr().unwrap().to_string();
    let free = "127.0.0.1:0";
    // (arguments, text in the message)
    let table: &[(&[&str], &str)] = &[
        (&[&missing, "--listen", free], &missing),
        (&[&file, "--listen", free], &file),
        (&[root, "--listen", &occupied, "--workers", "1"], &occupied),
        (&[root, "--listen", &occupied, "--workers", "2"], &occupied),
        (&[root, "--listen", free, "--admin", &occupied], &occupied),
        // An address for documentation (RFC 5737), which no machine has.
        (&[root, "--listen", "192.0.2.1:0"], "192.0.2.1:0"),
    ];
    for (arguments, name) in table {
        let (code, stdout, stderr) = web(arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {stderr}");
        assert_eq!(stdout, "", "{arguments:?}");
        assert!(stderr.contains(name), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("phalanx: ") && stderr.lines().count() == 1, "{stderr}");
    }
}

/// Two servers cannot share a port, although the workers of each do.
#[test]
fn a_port_is_not_shared_with_another_server() {
    let site = Site::new();
    let server = Server::start("poll", &site.root());
    let (root, address) = (site.root(), server.address.to_string());
    let (code, stdout, stderr) =
        web(&[root.to_str().unwrap(), "--listen", &address, "--workers", "2"]);
    assert_eq!((code, &stdout[..]), (Some(1), ""), "{stderr}");
    // The port is available as soon as the server has exited, although connections linger there.
    let mut client = phalanx_testkit::http::Client::connect(server.address);
    assert_eq!(client.get("/").status, 404);
    drop(server);
    let mut command = bare();
    command.args(["web", "--listen", &address]).arg(&root);
    Server::launch(command);
}

#[test]
fn help_and_version() {
    let (code, stdout, stderr) = run(bare().args(["web", "--help"]));
    assert_eq!((code, &stderr[..]), (Some(0), ""));
    for word in
        ["--listen", "--workers", "--driver", "--cache", "--shutdown-timeout", "listening on"]
    {
        assert!(stdout.contains(word), "{word}");
    }
    assert!(stdout.lines().all(|line| line.chars().count() <= 100), "fits a terminal");
    let (code, stdout, _) = run(bare().arg("--version"));
    assert_eq!((code, stdout.trim()), (Some(0), concat!("phalanx ", env!("CARGO_PKG_VERSION"))));
    let (code, stdout, stderr) = run(&mut bare());
    assert_eq!((code, &stdout[..]), (Some(2), ""));
    assert!(stderr.contains("web"));
}

/// A directory that is moved is still served.
#[test]
fn the_directory_is_opened_once() {
    let site = Site::new();
    site.file("file", "content");
    let server = Server::start("poll", &site.root());
    fs::rename(site.root(), site.outside().join("moved")).unwrap();
    assert_eq!(get(server.address, "/file").body, b"content");
}
