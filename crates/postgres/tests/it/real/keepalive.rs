//! Connections that nothing uses.

use std::net::TcpListener;
use std::time::Duration;

use phalanx_postgres::{Config, Error};
use phalanx_testkit::within_limit;

use super::{execute, run};

/// The second number of its row in `/proc/net/tcp` names the timer that runs: 2 is that of keepalive.
fn has_keepalive(port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let peer = format!("0100007F:{port:04X}");
    let mut rows = sockets.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    // An earlier connection may have used the port.
    rows.any(|row| row.get(2) == Some(&&*peer) && row[5].starts_with("02:"))
}

/// Otherwise a client does not notice that a firewall has forgotten the connection.
#[test]
fn the_kernel_asks_the_server_of_an_idle_connection() {
    within_limit(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let _client = listener.accept().unwrap();
            while !has_keepalive(address.port()) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let config = Config::tcp(address).queue_timeout(Duration::ZERO);
        let error = run(config, |database| async move {
            let error = execute(database, "SELECT 1").await.unwrap_err();
            // The end of the program would close the connection.
            while !server.is_finished() {
                phalanx::sleep(Duration::from_millis(1)).await;
            }
            server.join().unwrap();
            error
        });
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    });
}
