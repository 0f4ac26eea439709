//! Host names.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use phalanx::net::{IoTimeout, Resolver};
use phalanx::runtime::DriverChoice;
use phalanx::shutdown::{Drained, drain};
use phalanx::{Session, sleep};
use phalanx_testkit::eventually;

use crate::runtime::harness::runtime;
use crate::runtime::on_each_driver;

on_each_driver!(names_are_resolved, another_address_is_tried, nothing_waits_for_a_lookup);

fn names_are_resolved(driver: DriverChoice) {
    let passed = runtime(driver, 1).block_on(Resolver::declare, |resolver| async move {
        let numeric = resolver.resolve("::1", 80, IoTimeout::NONE).await.unwrap();
        assert_eq!(numeric, ["[::1]:80".parse().unwrap()]);
        // `/etc/hosts` of every machine has it.
        let addresses = resolver.resolve("localhost", 80, IoTimeout::NONE).await.unwrap();
        assert!(addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 80));
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

fn nothing_waits_for_a_lookup(driver: DriverChoice) {
    let (release, released) = mpsc::channel::<()>();
    let (released, counts) = (Mutex::new(released), Arc::new([const { AtomicUsize::new(0) }; 2]));
    let [started, ended] = &*counts;
    let counted = counts.clone();
    let lookup = move |_: &str| {
        counted[0].fetch_add(1, Ordering::SeqCst);
        let _ = released.lock().unwrap().recv();
        counted[1].fetch_add(1, Ordering::SeqCst);
        Ok(Vec::new())
    };
    let counted = counts.clone();
    let ran = runtime(driver, 2).block_on(
        |graph| (graph.shared("test", ()), Resolver::with(graph, lookup)),
        move |(stage, resolver)| async move {
            // Waits for another lookup.
            let start_lookup = async || {
                let before = counted[0].load(Ordering::SeqCst);
                while counted[0].load(Ordering::SeqCst) == before {
                    sleep(Duration::from_millis(1)).await;
                }
            };
            let call = |limit| {
                stage.call(move |_| async move { resolver.resolve("slow", 1, limit).await })
            };
            // The lookup may not have begun then.
            let error = call(IoTimeout::after(Duration::from_millis(1))).await.unwrap();
            assert_eq!(error.unwrap_err().kind(), io::ErrorKind::TimedOut);
            // The end of a session cancels its operations.
            let session = Session::new();
            let cancelled = session.scope(|| call(IoTimeout::NONE));
            start_lookup().await;
            session.end().await;
            assert!(cancelled.await.is_err());
            // A drain, and then the end of the program.
            let drained = call(IoTimeout::NONE.until_shutdown());
            start_lookup().await;
            drain();
            let error = drained.await.unwrap().unwrap_err();
            assert!(Drained::is_cause_of(&error), "{error}");
        },
    );
    ran.unwrap();
    assert_eq!(ended.load(Ordering::SeqCst), 0);
    drop(release);
    // Its threads end after their calls.
    eventually("the end of the threads", || (Arc::strong_count(&counts) == 1).then_some(()));
    assert_eq!(ended.load(Ordering::SeqCst), started.load(Ordering::SeqCst));
}
