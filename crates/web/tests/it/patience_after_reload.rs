//! The time limits of open connections after a reload.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::mpsc::channel;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use phalanx::runtime::DriverChoice;
use phalanx_testkit::driver::is_selected;
use phalanx_testkit::{TIMEOUT, tcp};
use phalanx_web::{Config, Inherited, Scheme, operate};
use signal_hook::consts::SIGHUP;
use signal_hook::low_level::raise;

use crate::common::{LARGE, RELOADING, Reloads, connect, read_until, run, small_and_large};

/// A client that does not read its response is disconnected in the time that the new configuration allows.
#[test]
fn limits_of_sending_apply_to_open_connections() {
    let _alone = RELOADING.lock().unwrap_or_else(PoisonError::into_inner);
    for driver in [DriverChoice::Uring, DriverChoice::Poll] {
        let home = tempfile::tempdir().unwrap();
        let mut config = small_and_large(home.path());
        config.listen = vec![Scheme::Http.at((tcp::unique_loopback(), 0))];
        (config.runtime.driver, config.runtime.signals) = (driver, false);
        config.timeouts.send = Duration::from_secs(3600);
        let mut hasty = Config { ..config.clone() };
        hasty.timeouts.send = Duration::from_millis(300);
        let (reloaded, is_reloaded) = channel();
        let mut started = None;
        let start = || {
            let serve = |up| {
                let operator = Reloads { up, next: VecDeque::from([hasty]).into(), reloaded };
                operate(config, Inherited::default(), Arc::new(operator))
            };
            run(serve).map(|server| started = Some(server))
        };
        if !is_selected(&driver.to_string(), start) {
            continue;
        }
        let (server, thread) = started.expect("it is tested");
        let mut clients = [(); 4].map(|()| connect(&server));
        for client in &mut clients {
            client.write_all(b"GET /small HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            read_until(client, "\r\n\r\nsmall");
        }
        raise(SIGHUP).unwrap();
        is_reloaded.recv_timeout(TIMEOUT).unwrap().unwrap();
        let is_disconnected = clients.iter_mut().any(|client| {
            client.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            // The server gives up before the client begins to read, unless the machine stalls.
            std::thread::sleep(Duration::from_secs(3));
            tcp::read_to_end(client).len() < LARGE
        });
        assert!(is_disconnected, "what sockets hold, and then the end");
        server.control.drain();
        thread.join().unwrap().unwrap();
    }
}
