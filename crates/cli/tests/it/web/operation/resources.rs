//! Resource use of an idle server, and release of resources.

#![cfg(target_os = "linux")]

use std::io::Read;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use phalanx_testkit::bytes::random_bytes;
use phalanx_testkit::eventually;
use phalanx_testkit::http::{Client, get};
use phalanx_testkit::procfs::{descriptors, processor_time, resident_bytes};
use phalanx_testkit::site::Site;

use crate::on_each_driver;
use crate::server::Server;
use crate::web::admin::snapshots::snapshot;
use crate::web::connections::slow_clients::slow_client;

on_each_driver!(an_idle_server_sleeps, resources_are_released, memory_does_not_grow);

fn site() -> Site {
    let site = Site::new();
    site.file("small", "small");
    site.file("large", random_bytes(1, 24 << 20));
    site
}

/// Without clients, with idle clients, after some load, and near timeouts.
fn an_idle_server_sleeps(driver: &'static str) {
    let site = site();
    let server = Server::start(driver, &site.root());
    let impatient = Server::start_with(driver, &site.root(), &["--idle-timeout", "3600s"]);
    let mut clients: Vec<_> = (0..100).map(|_| Client::connect(impatient.address)).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/small").status, 200));
    // A client whose response waits for it.
    let _slow = slow_client(impatient.address, "/large");
    // Repeated, since a busy machine may run other work in the process; an idle server uses no time.
    eventually("two idle servers", || {
        let used = || [&server, &impatient].map(|server| processor_time(server.pid()));
        let (started, before) = (Instant::now(), used());
        thread::sleep(Duration::from_secs(2));
        let idle = 0.01 * started.elapsed().as_secs_f64();
        let mut pairs = used().into_iter().zip(before);
        pairs.all(|(after, before)| (after - before).as_secs_f64() < idle).then_some(())
    });
}

/// Number of live operations on all processors.
fn operations(admin: SocketAddr) -> u64 {
    let snapshot = snapshot(admin);
    let processors = snapshot["processors"].as_array().unwrap();
    processors.iter().map(|processor| processor["operations"].as_u64().unwrap()).sum()
}

fn resources_are_released(driver: &'static str) {
    let site = site();
    let server = Server::start_with(driver, &site.root(), &["--admin", "127.0.0.1:0"]);
    let (address, admin) = (server.address, server.admin());
    // Once before, so that the files are cached and open.
    let visit = |times: usize| {
        for n in 0..times {
            match n % 40 {
                7 => drop(slow_client(address, "/large")),
                8 => drop(Client::connect(address)),
                9 => Client::connect(address).send("GET /sm"),
                10 => assert_eq!(get(address, "/missing").status, 404),
                11 => {
                    let mut client = Client::connect(address);
                    client.send("GET /small HTTP/1.1\r\n\r\n");
                    assert_eq!(client.response().status, 400);
                }
                _ => assert_eq!(get(address, "/small").status, 200),
            }
        }
    };
    visit(100);
    let at_rest = || {
        let now = (descriptors(server.pid()), operations(admin));
        thread::sleep(Duration::from_millis(100));
        (now == (descriptors(server.pid()), operations(admin))).then_some(now)
    };
    let before = eventually("an idle server", at_rest);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| visit(500));
        }
    });
    eventually(&format!("as before: {before:?} descriptors and operations"), || {
        let now = (descriptors(server.pid()), operations(admin));
        (now.0 <= before.0 && now.1 <= before.1).then_some(())
    });
}

fn memory_does_not_grow(driver: &'static str) {
    let site = site();
    let server = Server::start(driver, &site.root());
    let requests = "GET /small HTTP/1.1\r\nHost: test\r\n\r\n".repeat(50);
    // All responses have the same length, so counting bytes suffices.
    let mut client = Client::connect(server.address);
    client.send("GET /small HTTP/1.1\r\nHost: test\r\n\r\n");
    let mut answers = vec![0; 50 * client.read_more().unwrap()];
    let mut load = |times: usize| {
        for _ in 0..times / 50 {
            client.send(&requests);
            client.stream.read_exact(&mut answers).unwrap();
            assert!(answers.starts_with(b"HTTP/1.1 200 OK\r\n") && answers.ends_with(b"small"));
        }
    };
    // Let the pools grow to their final size.
    load(5_000);
    let before = resident_bytes(server.pid());
    load(50_000);
    let growth = resident_bytes(server.pid()).saturating_sub(before);
    // A leak of an operation, event or path per request would be tens of megabytes.
    assert!(growth < 4 << 20, "{} KiB more after 50,000 requests", growth >> 10);
}
