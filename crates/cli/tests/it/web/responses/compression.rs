//! Many clients request many compressible files: memory stays bounded, and shutdown is quick.

#![cfg(target_os = "linux")]

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phalanx_testkit::TIMEOUT;
use phalanx_testkit::bytes::assert_same;
use phalanx_testkit::http::{Client, Response, get};
use phalanx_testkit::procfs::anonymous_bytes;
use phalanx_testkit::site::Site;
use rustix::process::Signal;

use crate::on_each_driver;
use crate::server::{Server, bare};
use crate::web::admin::openmetrics::{Labels, parse};

on_each_driver!(many_large_files);

/// The largest file that is compressed.
const LENGTH: usize = 4 << 20;
/// Number of files, whose total size far exceeds the server's limits.
const FILES: usize = 50;
/// Number of clients.
const CLIENTS: usize = 10;
/// Maximum memory of the server: a cache of 16 MiB, 32 MiB for clients, working memory of two compression
/// threads, the program itself, and a margin. All files together are larger.
const MEMORY: u64 = 160 << 20;

/// Files of equal content.
fn site() -> (Site, Vec<u8>) {
    let site = Site::new();
    let line: Vec<u8> =
        (0..4096).flat_map(|n: u32| format!("{} and on\n", n * n).into_bytes()).collect();
    let content: Vec<u8> = line.into_iter().cycle().take(LENGTH).collect();
    let first = site.file("0.txt", &content);
    for n in 1..FILES {
        fs::hard_link(&first, site.root().join(format!("{n}.txt"))).unwrap();
    }
    (site, content)
}

/// Starts a server that rejects requests above this queueing delay.
fn start(driver: &str, site: &Site, max_queue_delay: &str) -> Server {
    let mut command = bare();
    command.arg("web").arg(site.root()).args(["--listen", "127.0.0.1:0", "--driver", driver]);
    command.args(["--workers", "2", "--compress", "--cache", "16M", "--admin", "127.0.0.1:0"]);
    command.args(["--shutdown-timeout", "600s", "--max-queue-delay", max_queue_delay]);
    Server::launch(command)
}

/// Requests all files, some concurrently; `each` gets the responses. Returns the maximum memory of the server.
fn ask_for_all(server: &Server, accept: &str, each: impl Fn(Response) + Sync) -> u64 {
    let (address, each, running) = (server.address, &each, &AtomicUsize::new(CLIENTS));
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                let _ended = CountOnDrop(running);
                let lines = format!("Accept-Encoding: {accept}\r\n");
                let mut connection = Client::connect(address);
                // A response waits for those of the other clients to be compressed.
                connection.stream.set_read_timeout(Some(10 * TIMEOUT)).unwrap();
                for n in (client..FILES).step_by(CLIENTS) {
                    each(connection.get_with(&format!("/{n}.txt"), &lines));
                }
            });
        }
        let mut most = 0;
        while running.load(Ordering::Relaxed) > 0 {
            most = anonymous_bytes(server.pid()).max(most);
            thread::sleep(Duration::from_millis(5));
        }
        most
    })
}

/// Decrements the number of clients, also on a panic.
struct CountOnDrop<'a>(&'a AtomicUsize);

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Number of files sent uncompressed because the compression queue was full.
fn refused(server: &Server) -> f64 {
    let response = get(server.admin(), "/metrics");
    let samples = parse(&String::from_utf8(response.body).unwrap());
    samples[&("phalanx_web_compressions_rejected_total".to_owned(), Labels::new())]
}

fn many_large_files(driver: &'static str) {
    let (site, content) = site();
    let mut server = start(driver, &site, "0");
    let most = ask_for_all(&server, "gzip, br, zstd", |response| {
        assert_eq!(response.status, 200);
        match response.field("Content-Encoding") {
            None => assert_same(&response.body, &content),
            Some(_) => assert!(response.body.len() < LENGTH),
        }
    });
    assert!(most < MEMORY, "{most} bytes");
    assert!(refused(&server) > 0.0, "all requests waited");
    // Shutdown does not wait for queued compression jobs, since no client does.
    let started = Instant::now();
    server.signal(Signal::TERM);
    server.expect_success();
    println!("{most} bytes at most, ended after {:?}", started.elapsed());
}

/// They wait, or get a 503: the memory for them is bounded as well. The test takes 8 s of processor time, and the driver
/// has no part in it.
#[test]
fn clients_that_reject_identity() {
    let (site, _) = site();
    // Clients get a 503 where they would wait for long.
    let server = start("poll", &site, "15ms");
    let most = ask_for_all(&server, "gzip, identity;q=0", |response| match response.status {
        200 => assert_eq!(response.field("Content-Encoding"), Some("gzip")),
        status => assert_eq!(status, 503),
    });
    assert!(most < MEMORY, "{most} bytes");
}
