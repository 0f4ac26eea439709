//! Reloads of certificates and of the configuration while connections with HTTP/3 are open.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use phalanx::runtime::DriverChoice;
use phalanx_testkit::TIMEOUT;
use phalanx_testkit::authority::{Authority, Pair};
use phalanx_testkit::driver::is_selected;
use phalanx_web::{Config, Inherited, Scheme, Tls, operate};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use signal_hook::consts::SIGHUP;
use signal_hook::low_level::raise;

use super::client::{Client, announced_by, block_on, connect_trusting};
use crate::common::{RELOADING, Reloads, run};
use crate::simulation::wire::client_config;

/// A server with files that contain their `version`, at two addresses.
fn config(home: &Path, driver: DriverChoice, version: &str, pair: Pair) -> Config {
    let root = home.join(version);
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("version"), version).unwrap();
    let mut config = Config::with_root(&root);
    config.listen =
        [1, 2].map(|last| Scheme::Https.at(([127, 0, 0, last], 0))).into_iter().collect();
    config.http3 = true;
    (config.runtime.driver, config.runtime.signals, config.runtime.workers) = (driver, false, 2);
    config.hosts[0].tls = Some(Tls { certificate: pair.certificate, key: pair.key });
    config
}

fn reload(is_reloaded: &Receiver<Result<(), String>>) {
    raise(SIGHUP).unwrap();
    is_reloaded.recv_timeout(TIMEOUT).unwrap().unwrap();
}

/// A connection that begins after a reload is kept for as long as the new limit says.
#[test]
fn a_longer_limit_of_idle_connections() {
    const SHORT: Duration = Duration::from_millis(100);
    let _alone = RELOADING.lock().unwrap_or_else(PoisonError::into_inner);
    for driver in [DriverChoice::Uring, DriverChoice::Poll] {
        let (home, authority) = (tempfile::tempdir().unwrap(), Authority::new());
        let mut first = config(home.path(), driver, "one", authority.sign("one", &["sim.test"]));
        let second = first.clone();
        (first.timeouts.idle, first.timeouts.request) = (SHORT, SHORT);
        let (reloaded, is_reloaded) = channel();
        let mut started = None;
        let start = || {
            let next = VecDeque::from([second]).into();
            let serve =
                |up| operate(first, Inherited::default(), Arc::new(Reloads { up, next, reloaded }));
            run(serve).map(|server| started = Some(server))
        };
        if !is_selected(&driver.to_string(), start) {
            continue;
        }
        let (server, thread) = started.expect("it is tested");
        let authority = std::fs::read(authority.certificate()).unwrap();
        let tls = client_config(CertificateDer::from_pem_slice(&authority).unwrap());
        let udp = announced_by(&tls, server.address);
        reload(&is_reloaded);
        block_on(async {
            let mut client = Client::over(connect_trusting(&tls, udp).await.unwrap()).await;
            assert_eq!(client.get("/version").await.1, b"one");
            // Longer than the first limit, which is five seconds more than the time for idle connections.
            tokio::time::sleep(Duration::from_secs(7)).await;
            assert_eq!(client.get("/version").await.1, b"one");
        });
        server.control.drain();
        thread.join().unwrap().unwrap();
    }
}

#[test]
fn open_connections_continue() {
    let _alone = RELOADING.lock().unwrap_or_else(PoisonError::into_inner);
    for driver in [DriverChoice::Uring, DriverChoice::Poll] {
        let (home, authority) = (tempfile::tempdir().unwrap(), Authority::new());
        let sign = |name| authority.sign(name, &["sim.test"]);
        let first = config(home.path(), driver, "one", sign("one"));
        let second = config(home.path(), driver, "two", sign("two"));
        // The second address is removed.
        let third = Config { listen: second.listen[..1].to_vec(), ..second.clone() };
        let (reloaded, is_reloaded) = channel();
        let mut started = None;
        let start = || {
            let next = VecDeque::from([second, third]).into();
            let serve =
                |up| operate(first, Inherited::default(), Arc::new(Reloads { up, next, reloaded }));
            run(serve).map(|server| started = Some(server))
        };
        if !is_selected(&driver.to_string(), start) {
            continue;
        }
        let (server, thread) = started.expect("it is tested");
        let authority = std::fs::read(authority.certificate()).unwrap();
        let tls = client_config(CertificateDer::from_pem_slice(&authority).unwrap());
        let udp: Vec<_> =
            server.addresses.iter().map(|address| announced_by(&tls, *address)).collect();
        block_on(async {
            let connect = |at: usize| connect_trusting(&tls, udp[at]);
            let certificate = |quic: &quinn::Connection| {
                let chain = quic.peer_identity().unwrap();
                chain.downcast::<Vec<CertificateDer<'static>>>().unwrap()[0].to_vec()
            };
            let old = [connect(0).await.unwrap(), connect(1).await.unwrap()];
            let mut clients = Vec::new();
            for quic in &old {
                clients.push(Client::over(quic.clone()).await);
            }
            for client in &mut clients {
                assert_eq!(client.get("/version").await.1, b"one");
            }
            reload(&is_reloaded);
            for client in &mut clients {
                assert_eq!(client.get("/version").await.1, b"two", "the connection is the same");
            }
            let new = connect(1).await.unwrap();
            assert_ne!(certificate(&new), certificate(&old[1]));
            reload(&is_reloaded);
            let refused = connect(1).await.unwrap_err();
            assert!(matches!(refused, quinn::ConnectionError::ConnectionClosed(_)), "{refused:?}");
            for client in &mut clients {
                assert_eq!(client.get("/version").await.1, b"two");
            }
            assert!(connect(0).await.is_ok());
        });
        server.control.drain();
        thread.join().unwrap().unwrap();
    }
}
