//! Bounds on the requests in progress.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use phalanx_testkit::http::Client;

use crate::proxy::backend::Backend;
use crate::proxy::with;

/// A server that reports requests, and responds when it is told to.
fn waiting() -> (Backend, Receiver<String>, Sender<()>) {
    let (report, reports) = channel();
    let (allow, allowed) = channel::<()>();
    let allowed = Arc::new(Mutex::new(allowed));
    let backend = Backend::new(move |mut peer, _| {
        while let Some(head) = peer.head() {
            report.send(head).unwrap();
            if allowed.lock().unwrap().recv().is_err() {
                return;
            }
            peer.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        }
    });
    (backend, reports, allow)
}

#[test]
fn requests_wait_and_are_refused() {
    let parts = Mutex::new(None);
    let backend = || {
        let (backend, reports, allow) = waiting();
        *parts.lock().unwrap() = Some((reports, allow));
        backend
    };
    let change = |proxy: &mut phalanx_web::Proxy| {
        (proxy.max_requests, proxy.max_queue) = (1, 1);
        proxy.connect_timeout = Duration::from_secs(60);
    };
    with(backend, change, |server, backend| {
        let (reports, allow) = parts.lock().unwrap().take().unwrap();
        let ask = || {
            let mut client = Client::connect(server.address);
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n");
            client
        };
        let mut first = ask();
        assert!(reports.recv().unwrap().starts_with("GET /api "));
        // Of two others, one waits and one is refused.
        let (ended, ends) = channel();
        let others = [ended.clone(), ended].map(|ended| {
            let mut client = ask();
            thread::spawn(move || ended.send(client.response()).unwrap())
        });
        let refused = ends.recv().unwrap();
        assert_eq!((refused.status, refused.field("Retry-After")), (503, Some("1")));
        let _ = (allow.send(()), allow.send(()));
        assert_eq!(first.response().text(), "hi");
        assert_eq!(ends.recv().unwrap().text(), "hi");
        assert_eq!(backend.accepted(), 1, "the one that waited uses the same connection");
        drop(allow);
        others.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
