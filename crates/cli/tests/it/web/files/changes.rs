//! Files that change while they are served.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phalanx_testkit::bytes::{assert_same, random_bytes};
use phalanx_testkit::http::{Client, Response, get};
use phalanx_testkit::site::{Site, age};
use phalanx_testkit::{TIMEOUT, eventually};

use crate::on_each_driver;
use crate::server::{Server, program};
use crate::web::connections::slow_clients::slow_client;

on_each_driver!(
    changes_are_noticed,
    versions_are_never_mixed,
    replaced_while_it_is_sent,
    truncated_while_it_is_sent,
);

/// A cached file is revalidated after a second, so a request slightly more than a second after a change gets the
/// new version. The exact delay is tested in simulation, where machines do not stall; this test allows for
/// stalls.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(8);

/// Requests `path` until the response is new.
#[track_caller]
fn becomes(client: &mut Client, path: &str, new: impl Fn(&Response) -> bool) {
    let changed = Instant::now();
    loop {
        let elapsed = changed.elapsed();
        let response = client.get(path);
        if new(&response) {
            return;
        }
        assert!(
            elapsed < CHANGE_TIMEOUT,
            "{path} is still the old after {elapsed:?}: {}",
            response.status
        );
        thread::sleep(Duration::from_millis(50));
    }
}

/// Atomically replaces a file.
fn replace(path: &Path, content: &[u8]) {
    let sibling = path.with_extension("new");
    fs::write(&sibling, content).unwrap();
    age(&sibling, 1800);
    fs::rename(&sibling, path).unwrap();
}

fn changes_are_noticed(driver: &'static str) {
    let site = Site::new();
    let config = program(driver, &site.root()).arg("--print-config").output().unwrap().stdout;
    assert!(
        String::from_utf8_lossy(&config).contains("revalidate-interval = \"1s\""),
        "{config:?}"
    );
    let lengths = [1000, 300_000];
    let old = |length| random_bytes(1, length);
    let new = |length| random_bytes(2, length);
    for length in lengths {
        for name in ["written", "shorter", "longer", "renamed", "deleted", "directory"] {
            site.file(format!("{name}{length}"), old(length));
        }
    }
    let server = Server::start(driver, &site.root());
    thread::scope(|scope| {
        for length in lengths {
            let (site, address) = (&site, server.address);
            let check =
                move |name: &str, change: &dyn Fn(&Path), new: &dyn Fn(&Response) -> bool| {
                    let path = format!("{name}{length}");
                    // On a separate connection: after sending a file the server checks for truncation and closes if
                    // so, though the client may have received the last byte.
                    let before = Client::connect(address).get(&format!("/{path}"));
                    assert_same(&before.body, &old(length));
                    change(&site.root().join(&path));
                    becomes(&mut Client::connect(address), &format!("/{path}"), |response| {
                        assert!(
                            new(response) || response.body == before.body,
                            "neither the old nor the new version"
                        );
                        new(response)
                    });
                };
            let has_body = |content: Vec<u8>| move |response: &Response| response.body == content;
            scope.spawn(move || {
                // Same length, so only the time differs. `fs::write` would truncate the file first.
                let change = |path: &Path| {
                    let mut file = File::options().write(true).open(path).unwrap();
                    file.write_all(&new(length)).unwrap();
                };
                check("written", &change, &has_body(new(length)));
            });
            scope.spawn(move || {
                let change = |path: &Path| {
                    let file = File::options().write(true).open(path).unwrap();
                    file.set_len(500).unwrap();
                };
                // Changed in place, so cached blocks may be of the old version.
                check("shorter", &change, &has_body(old(length)[..500].to_vec()));
            });
            scope.spawn(move || {
                let change = |path: &Path| {
                    let mut file = File::options().append(true).open(path).unwrap();
                    file.write_all(b"more").unwrap();
                };
                check("longer", &change, &has_body([old(length), b"more".to_vec()].concat()));
            });
            scope.spawn(move || {
                check("renamed", &|path| replace(path, &new(length)), &has_body(new(length)));
            });
            scope.spawn(move || {
                let is_missing = |response: &Response| response.status == 404;
                check("deleted", &|path| fs::remove_file(path).unwrap(), &is_missing);
            });
            scope.spawn(move || {
                let change = |path: &Path| {
                    fs::remove_file(path).unwrap();
                    fs::create_dir(path).unwrap();
                };
                check("directory", &change, &|response| response.status == 301);
            });
        }
    });
    // Missing files are not cached.
    assert_eq!(get(server.address, "/appears").status, 404);
    site.file("appears", "here");
    assert_eq!(get(server.address, "/appears").body, b"here");
}

/// Every response is one version of the file with the tag of that version.
fn versions_are_never_mixed(driver: &'static str) {
    let site = Site::new();
    let states = [random_bytes(1, 60_000), random_bytes(2, 60_000)];
    let path = site.file("file", &states[0]);
    let server = Server::start(driver, &site.root());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !is_over.load(Ordering::Relaxed) {
                round += 1;
                // Each version always has the same time, so that it has the same tag except for the inode number.
                // It exists only briefly, so that many reads span a change.
                replace(&path, &states[round % 2]);
                thread::sleep(Duration::from_micros(200));
            }
        });
        let clients: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut seen = [0, 0];
                    let started = Instant::now();
                    let enough = |seen: [i32; 2]| seen[0] > 0 && seen[1] > 0;
                    while started.elapsed() < Duration::from_millis(1500) || !enough(seen) {
                        assert!(
                            started.elapsed() < TIMEOUT,
                            "only one state is ever seen: {seen:?}"
                        );
                        let response = get(server.address, "/file");
                        // 500 after three attempts at a file that changes continuously.
                        if response.status != 500 {
                            let state = states.iter().position(|state| *state == response.body);
                            seen[state.expect("one of the two states")] += 1;
                        }
                        thread::sleep(Duration::from_millis(3));
                    }
                })
            })
            .collect();
        let results: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(results.into_iter().all(|result| result.is_ok()));
    });
}

fn replaced_while_it_is_sent(driver: &'static str) {
    let site = Site::new();
    let (old, new) = (random_bytes(1, 24 << 20), random_bytes(2, 24 << 20));
    let path = site.file("file", &old);
    let server = Server::start(driver, &site.root());
    let mut slow = slow_client(server.address, "/file");
    replace(&path, &new);
    becomes(&mut Client::connect(server.address), "/file", |response| response.body == new);
    // The server has the old file open and continues with it.
    assert_same(&slow.response().body, &old);
}

fn truncated_while_it_is_sent(driver: &'static str) {
    let site = Site::new();
    let content = random_bytes(1, 24 << 20);
    let path = site.file("file", &content);
    site.file("other", "fine");
    let server = Server::start(driver, &site.root());
    let mut slow = slow_client(server.address, "/file");
    File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
    // The head has announced more bytes than exist, so the server can only close.
    let (bytes, _) = slow.read_to_end();
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let body = &bytes[head..];
    assert!(body.len() < content.len() && *body == content[..body.len()], "{}", body.len());
    assert_eq!(get(server.address, "/other").body, b"fine");
    // Until the change is noticed, other requests are truncated likewise.
    eventually("the truncated file", || {
        let mut client = Client::connect(server.address);
        client.send("GET /file HTTP/1.0\r\n\r\n");
        client.read_to_end().0.ends_with(&content[..100]).then_some(())
    });
}
