//! Host names.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use phalanx::net::{IoTimeout, Resolver};
use phalanx::runtime::DriverChoice;

use crate::runtime::harness::runtime;
use crate::runtime::on_each_driver;

on_each_driver!(names_are_resolved, another_address_is_tried);

fn names_are_resolved(driver: DriverChoice) {
    let passed = runtime(driver, 1).block_on(Resolver::declare, |resolver| async move {
        let numeric = resolver.resolve("::1", 80).await.unwrap();
        assert_eq!(numeric, ["[::1]:80".parse().unwrap()]);
        // `/etc/hosts` of every machine has it.
        let found = resolver.resolve("localhost", 80).await.unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 80));
    });
    passed.unwrap();
}

fn another_address_is_tried(driver: DriverChoice) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let lookup = move |host: &str| match host {
        // Nothing listens on the first address.
        "two" => Ok(["127.0.0.2", "127.0.0.1"].map(|ip| ip.parse::<IpAddr>().unwrap()).into()),
        "none" => Ok(Vec::new()),
        "slow" => {
            let _ = released.lock().unwrap().recv();
            Ok(Vec::new())
        }
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let passed = runtime(driver, 1).block_on(
        move |graph| Resolver::with(graph, lookup),
        move |resolver| async move {
            let limit = IoTimeout::after(Duration::from_secs(60));
            let stream = resolver.connect("two", port, limit).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap().port(), port);
            let error = resolver.connect("none", port, limit).await.unwrap_err();
            assert_eq!(error.to_string(), "the host name none has no address");
            let error = resolver.connect("other", port, limit).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert!(error.to_string().starts_with("cannot resolve other: "), "{error}");
            let short = IoTimeout::after(Duration::from_millis(1));
            let error = resolver.connect("slow", port, short).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
            drop(release);
        },
    );
    passed.unwrap();
}
