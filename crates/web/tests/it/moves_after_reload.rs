//! Connections that move to another worker after a reload has changed their listener.

use std::collections::VecDeque;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, PoisonError};

use phalanx::runtime::DriverChoice;
use phalanx_testkit::authority::Authority;
use phalanx_testkit::driver::is_selected;
use phalanx_testkit::{TIMEOUT, eventually, tcp};
use phalanx_web::{Config, Inherited, Scheme, Tls, operate};
use signal_hook::consts::SIGHUP;
use signal_hook::low_level::raise;

use crate::common::{RELOADING, Reloads, connect, run};
use crate::moves::{ask, clients_of_both_workers, moved, two_workers};

/// The same server, first with a plain listener and one with TLS, and then with TLS on both.
fn plain_then_tls(home: &Path, driver: DriverChoice, authority: &Authority) -> [Config; 2] {
    let address = tcp::unique_loopback();
    let free = [0, 0].map(|port| TcpListener::bind((address, port)).unwrap());
    let [first, second] = free.each_ref().map(|free| free.local_addr().unwrap());
    let mut config = two_workers(home);
    (config.runtime.driver, config.runtime.signals) = (driver, false);
    let pair = authority.sign("host", &["a.test"]);
    config.hosts[0].tls = Some(Tls { certificate: pair.certificate, key: pair.key });
    [Scheme::Http, Scheme::Https].map(|scheme| Config {
        listen: vec![scheme.at(first), Scheme::Https.at(second)],
        ..config.clone()
    })
}

/// They stay plain on the worker that takes them over, where the listener expects TLS.
#[test]
fn connections_of_a_listener_that_became_tls_move() {
    let _alone = RELOADING.lock().unwrap_or_else(PoisonError::into_inner);
    for driver in [DriverChoice::Uring, DriverChoice::Poll] {
        let (home, authority) = (tempfile::tempdir().unwrap(), Authority::new());
        let [plain, tls] = plain_then_tls(home.path(), driver, &authority);
        let (reloaded, is_reloaded) = channel();
        let mut started = None;
        let start = || {
            let serve = |up| {
                let operator = Reloads { up, next: VecDeque::from([tls]).into(), reloaded };
                operate(plain, Inherited::default(), Arc::new(operator))
            };
            run(serve).map(|server| started = Some(server))
        };
        if !is_selected(&driver.to_string(), start) {
            continue;
        }
        let (server, thread) = started.expect("it is tested");
        let mut clients = clients_of_both_workers(&server);
        clients.iter_mut().for_each(|client| ask(client, 1, 0));
        raise(SIGHUP).unwrap();
        is_reloaded.recv_timeout(TIMEOUT).unwrap().unwrap();
        server.active.set(1);
        eventually("connections have moved", || {
            clients.iter_mut().for_each(|client| ask(client, 1, 0));
            moved(&server, "gathered").filter(|moved| *moved > 0)
        });
        clients.iter_mut().for_each(|client| ask(client, 2, 0));
        // A new connection needs TLS.
        drop(clients);
        eventually("room for another connection", || {
            let mut new = connect(&server);
            let _ = new.write_all(b"GET /small HTTP/1.1\r\nHost: h\r\n\r\n");
            let answer = String::from_utf8_lossy(&tcp::read_to_end(&new)).into_owned();
            assert!(!answer.starts_with("HTTP/1.1 200 "), "{answer}");
            answer.starts_with("HTTP/1.1 400 ").then_some(())
        });
        server.control.drain();
        thread.join().unwrap().unwrap();
    }
}
