//! Overload: rejections are immediate, and every request gets a response.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use phalanx_testkit::bytes::{assert_same, random_bytes};
use phalanx_testkit::eventually;
use phalanx_testkit::http::Client;
use phalanx_testkit::site::Site;

use crate::on_each_driver;
use crate::server::{Server, bare};
use crate::web::admin::snapshots::snapshot;

on_each_driver!(
    rejections_are_explicit,
    disabled_overload_control_rejects_nothing,
    files_that_wait_to_be_sent_are_an_overload
);

const CLIENTS: usize = 48;

/// Clients that request a large file continuously. Each checks every response, until `done`.
fn start_clients<'s>(
    scope: &'s thread::Scope<'s, '_>,
    address: SocketAddr,
    content: &'s [u8],
    done: &'s AtomicBool,
    refused: &'s AtomicBool,
) {
    for _ in 0..CLIENTS {
        scope.spawn(move || {
            let mut client = Client::connect(address);
            while !done.load(Ordering::Relaxed) {
                // The connection of a rejected request stays open.
                let response = client.get("/large");
                match response.status {
                    200 => assert_same(&response.body, content),
                    503 => {
                        assert_eq!(response.field("Retry-After"), Some("1"));
                        assert!(response.body.is_empty() && !response.has_connection_close());
                        refused.store(true, Ordering::Relaxed);
                    }
                    status => panic!("{status}"),
                }
            }
            // When the load falls, all requests are served again.
            eventually("an answer", || (client.get("/large").status == 200).then_some(()));
        });
    }
}

fn shed(server: &Server) -> u64 {
    let snapshot = snapshot(server.admin());
    let stages = snapshot["processors"][0]["stages"].as_array().unwrap();
    stages.iter().map(|stage| stage["shed"]["admission"].as_u64().unwrap()).sum()
}

fn start(driver: &str, site: &Site, wait: &str) -> Server {
    let mut command = bare();
    command.arg("web").arg(site.root()).args(["--listen", "127.0.0.1:0", "--driver", driver]);
    command.args(["--workers", "1", "--admin", "127.0.0.1:0", "--max-queue-delay", wait]);
    Server::launch(command)
}

fn rejections_are_explicit(driver: &'static str) {
    let site = Site::new();
    let content = random_bytes(1, 4 << 20);
    site.file("large", &content);
    let server = start(driver, &site, "1ms");
    let (done, refused) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        start_clients(scope, server.address, &content, &done, &refused);
        eventually("a rejection", || refused.load(Ordering::Relaxed).then_some(()));
        done.store(true, Ordering::Relaxed);
    });
    assert!(shed(&server) > 0, "rejections are counted");
}

fn disabled_overload_control_rejects_nothing(driver: &'static str) {
    let site = Site::new();
    let content = random_bytes(1, 4 << 20);
    site.file("large", &content);
    let server = start(driver, &site, "0");
    let (done, refused) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        start_clients(scope, server.address, &content, &done, &refused);
        thread::sleep(std::time::Duration::from_millis(500));
        done.store(true, Ordering::Relaxed);
    });
    assert!(!refused.load(Ordering::Relaxed) && shed(&server) == 0);
}

/// With a driver that sends files itself, no other work is delayed, but the files are.
fn files_that_wait_to_be_sent_are_an_overload(driver: &'static str) {
    let site = Site::new();
    site.file("large", random_bytes(1, 512 << 10));
    let server = start(driver, &site, "8ms");
    let (served, rejected) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let round = || {
        let connect = |_| Client::connect(server.address);
        let mut clients: Vec<_> = (0..128).map(connect).collect();
        for client in &mut clients {
            client.send("GET /large HTTP/1.1\r\nHost: test\r\n\r\n");
        }
        for client in &mut clients {
            let counter = if client.response().status == 200 { &served } else { &rejected };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    };
    // Some, but not all, requests are rejected; repeated since stalls of the machine affect this.
    eventually("responses and rejections", || {
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(round))));
        let all = [&served, &rejected].map(|counter| counter.load(Ordering::Relaxed));
        all.iter().all(|count| *count > 0).then_some(())
    });
    assert!(shed(&server) > 0);
}
