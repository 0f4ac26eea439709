//! Health checks.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx_testkit::eventually;
use phalanx_web::HealthCheck;

use crate::common::{Server, get, metric, on_each_driver};
use crate::proxy::backend::{Backend, passing};

/// A server, whether its checks succeed, and the number of other requests that it got.
struct Checked {
    backend: Backend,
    is_up: Arc<AtomicBool>,
    requests: Arc<AtomicUsize>,
}

impl Checked {
    fn new(is_up: bool) -> Self {
        let (is_up, requests) = (Arc::new(AtomicBool::new(is_up)), Arc::new(AtomicUsize::new(0)));
        let (up, count) = (is_up.clone(), requests.clone());
        let backend = Backend::new(move |mut peer, _| {
            while let Some(head) = peer.head() {
                let status = if head.starts_with("GET /up?x HTTP/1.1\r\n") {
                    let address = peer.stream.local_addr().unwrap();
                    assert!(head.contains(&format!("\r\nHost: {address}\r\n")), "{head}");
                    // Interim responses do not decide a check.
                    peer.say("HTTP/1.1 103 Early Hints\r\n\r\n");
                    if up.load(Relaxed) { 204 } else { 500 }
                } else {
                    count.fetch_add(1, Relaxed);
                    200
                };
                peer.say(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n"));
            }
        });
        Self { backend, is_up, requests }
    }

    /// Waits until the metrics show the result of the checks.
    fn wait(&self, server: &Server, is_up: usize) {
        let name = format!("http_upstream_up{{server=\"http://{}\"}}", self.backend.address);
        eventually(&name, || (metric(server, &name) == Some(is_up)).then_some(()));
    }
}

#[test]
fn a_server_gets_no_requests_while_its_checks_fail() {
    let running = Mutex::new(None);
    let start = |_: &std::path::Path| {
        let (one, other) = (Checked::new(true), Checked::new(false));
        let mut config = passing(one.backend.address, |proxy| {
            let url = format!("http://{}", other.backend.address);
            proxy.to.push(url.parse().unwrap());
            proxy.health = Some(HealthCheck {
                path: "/up?x".into(),
                interval: Duration::from_millis(10),
                ..HealthCheck::default()
            });
        });
        config.runtime.admin = Some((Ipv4Addr::LOCALHOST, 0).into());
        *running.lock().unwrap() = Some((one, other));
        config
    };
    on_each_driver(start, |server, _| {
        let (one, other) = running.lock().unwrap().take().expect("they were started");
        let ask = || assert!(get(server, "/api").starts_with("HTTP/1.1 200 "));
        one.wait(server, 1);
        other.wait(server, 0);
        (0..10).for_each(|_| ask());
        assert_eq!((one.requests.load(Relaxed), other.requests.load(Relaxed)), (10, 0));
        other.is_up.store(true, Relaxed);
        other.wait(server, 1);
        (0..10).for_each(|_| ask());
        assert!(other.requests.load(Relaxed) > 0, "they take turns");
        // If all are down, all are tried.
        for checked in [&one, &other] {
            checked.is_up.store(false, Relaxed);
            checked.wait(server, 0);
        }
        (0..10).for_each(|_| ask());
    });
}
