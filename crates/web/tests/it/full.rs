//! Requests for files on a processor that has reached its limit on operations.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use phalanx::fs::Dir;
use phalanx::net::Listener;
use phalanx::runtime::{DriverChoice, StartContext, Started};
use phalanx::{Graph, Runtime};
use phalanx_testkit::driver::is_selected;
use phalanx_testkit::http::Client;
use phalanx_web::{Config, Server};

const MAX_OPERATIONS: usize = 32;

/// A cached file is sent without the check that each request should do. A file that is not cached gets 503.
#[test]
fn files_beyond_the_limit_on_operations() {
    for driver in [DriverChoice::Uring, DriverChoice::Poll] {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("cached"), "cached").unwrap();
        for n in 0..2 * MAX_OPERATIONS {
            fs::write(home.path().join(format!("{n}")), "file").unwrap();
        }
        let mut config = Config::with_root(home.path());
        (config.timeouts.revalidate, config.max_queue_delay) = (Duration::ZERO, None);
        let mut graph = Graph::new();
        graph.max_operations(MAX_OPERATIONS);
        let root = Dir::open(home.path()).unwrap();
        let server = Server::declare(&mut graph, &config, [root]).unwrap();
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (address, socket) = (socket.local_addr().unwrap(), Mutex::new(Some(socket)));
        let start = |_: &StartContext| {
            let socket = socket.lock().unwrap().take().unwrap();
            Ok(server.accept([Listener::new(socket)?])?)
        };
        let mut client = None;
        let ready = |started: &Started| {
            let control = started.control.clone();
            client = Some(thread::spawn(move || {
                let (mut client, mut idle) = (Client::connect(address), Vec::new());
                let statuses: Vec<_> = (0..2 * MAX_OPERATIONS)
                    .map(|n| {
                        idle.push(TcpStream::connect(address).unwrap());
                        (client.get("/cached").status, client.get(&format!("/{n}")).status)
                    })
                    .collect();
                control.drain();
                statuses
            }));
        };
        let runtime = Runtime::new().processors(1).signals(false).driver(driver);
        let run = || runtime.run_with_ready(graph, start, ready).map(drop);
        if !is_selected(&driver.to_string(), run) {
            continue;
        }
        let statuses = client.unwrap().join().unwrap();
        assert!(statuses.iter().all(|(cached, _)| *cached == 200), "{statuses:?}");
        assert!(statuses.iter().all(|(_, other)| matches!(other, 200 | 503)), "{statuses:?}");
        assert!(statuses.iter().any(|(_, other)| *other == 503), "{statuses:?}");
    }
}
