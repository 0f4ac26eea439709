//! Servers that run out of descriptors, or would if they kept all served files open.

#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use phalanx_testkit::bytes::{assert_same, random_bytes};
use phalanx_testkit::http::{Client, get};
use phalanx_testkit::procfs::descriptors;
use phalanx_testkit::site::Site;
use phalanx_testkit::{TIMEOUT, eventually};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use crate::on_each_driver;
use crate::server::{Server, bare, program};

on_each_driver!(
    more_large_files_than_descriptors,
    more_clients_than_descriptors,
    cached_files_remain_without_descriptors,
    more_processors_than_descriptors,
);

/// A server with a limit on open descriptors.
fn with_descriptors(limit: usize, driver: &str, site: &Site) -> Server {
    Server::launch(limited(limit, &program(driver, &site.root())))
}

fn limited(limit: usize, inner: &Command) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
    command.args(["-c", &script]).arg(inner.get_program()).args(inner.get_args());
    for (name, _) in inner.get_envs() {
        command.env_remove(name);
    }
    command
}

/// Large files are served from open descriptors, which the cache keeps, up to a limit.
fn more_large_files_than_descriptors(driver: &'static str) {
    let site = Site::new();
    for n in 0..600 {
        site.file(format!("{n}"), random_bytes(n, 70_000));
    }
    let server = with_descriptors(400, driver, &site);
    let mut client = Client::connect(server.address);
    for n in (0..600).chain(0..600) {
        let response = client.get(&format!("/{n}"));
        assert_eq!(response.status, 200, "file {n}, {} descriptors", descriptors(server.pid()));
        assert_same(&response.body, &random_bytes(n, 70_000));
    }
    // A descriptor is left for another client.
    assert_eq!(get(server.address, "/0").status, 200);
}

fn more_clients_than_descriptors(driver: &'static str) {
    let site = Site::new();
    site.file("file", "content");
    let server = with_descriptors(64, driver, &site);
    let mut first = Client::connect(server.address);
    assert_eq!(first.get("/file").body, b"content");
    let connections: Vec<_> =
        (0..100).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    // Existing connections are served. An uncached file needs a descriptor, so it may be rejected.
    assert_eq!(first.get("/file").body, b"content");
    site.file("other", "other");
    assert!([200, 503].contains(&first.get("/other").status));
    drop(connections);
    // Once descriptors are available.
    for (path, content) in [("/file", "content"), ("/other", "other")] {
        eventually("a free connection slot", || {
            let mut client = Client::from_stream(TcpStream::connect(server.address).ok()?);
            client.stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            let request = format!("GET {path} HTTP/1.0\r\n\r\n");
            client.stream.write_all(request.as_bytes()).ok()?;
            let mut answer = Vec::new();
            client.stream.read_to_end(&mut answer).ok()?;
            answer.ends_with(format!("\r\n\r\n{content}").as_bytes()).then_some(())
        });
    }
}

/// A file that is in memory, and its precompressed version, although each request should check both.
fn cached_files_remain_without_descriptors(driver: &'static str) {
    let site = Site::new();
    for name in ["cached", "cached.gz", "other"] {
        site.file(name, name);
    }
    let text = format!(
        "listen = ['127.0.0.1:0']\nrevalidate-interval = '0s'\n\
         [[host]]\nroot = '{}'\nprecompressed = true\n",
        site.root().display()
    );
    let server = Server::configured(driver, site.outside(), &text, &[]);
    let mut client = Client::connect(server.address);
    let mut ask = |path: &str, fields: &str| {
        let response = client.get_with(path, fields);
        (response.status, String::from_utf8_lossy(&response.body).into_owned())
    };
    let mut ask_both = || {
        assert_eq!(ask("/cached", ""), (200, "cached".into()));
        assert_eq!(ask("/cached", "Accept-Encoding: gzip\r\n"), (200, "cached.gz".into()));
    };
    ask_both();
    // All that it needs are open.
    let pid = Pid::from_raw(server.pid().try_into().unwrap());
    let none = Rlimit { current: Some(0), ..getrlimit(Resource::Nofile) };
    let limit = prlimit(pid, Resource::Nofile, none).unwrap();
    for _ in 0..3 {
        ask_both();
    }
    assert_eq!(ask("/other", "").0, 503, "it is not cached");
    prlimit(pid, Resource::Nofile, limit).unwrap();
    site.file("cached", "changed");
    assert_eq!(ask("/cached", ""), (200, "changed".into()));
    assert_eq!(ask("/other", ""), (200, "other".into()));
}

/// If only some workers can start, the program exits with an error.
fn more_processors_than_descriptors(driver: &'static str) {
    let site = Site::new();
    let root = site.root();
    // Wherever the descriptors run out.
    for limit in [8, 16, 20, 24, 28, 32, 40, 200] {
        let mut inner = bare();
        inner.args(["web", "--listen", "127.0.0.1:0", "--workers", "8", "--driver", driver]);
        inner.args(["--admin", "127.0.0.1:0"]).arg(&root);
        let mut command = limited(limit, &inner);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It may also have enough; then it reports that it is ready and waits for a signal.
        let (start, mut stdout) = (Instant::now(), BufReader::new(child.stdout.take().unwrap()));
        let ready = thread::spawn(move || stdout.read_line(&mut String::new()).map(|_| stdout));
        let (mut ready, mut stdout) = (Some(ready), None);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if let Some(ready) = ready.take_if(|ready| ready.is_finished()) {
                stdout = Some(ready.join().unwrap().unwrap());
                // It may have exited already.
                let _ = kill_process(Pid::from_child(&child), Signal::INT);
            }
            if start.elapsed() > TIMEOUT {
                child.kill().unwrap();
                panic!("with {limit} descriptors it neither serves nor exits");
            }
            thread::sleep(Duration::from_millis(20));
        };
        drop(stdout);
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert!(matches!(status.code(), Some(0 | 1)), "{limit}: {status}: {stderr}");
        assert!(!stderr.contains("panicked"), "{limit}: {stderr}");
        assert_eq!(status.code() == Some(1), stderr.contains("Too many open files"), "{stderr}");
    }
}
