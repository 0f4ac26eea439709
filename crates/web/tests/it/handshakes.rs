//! The count of failed TLS handshakes.

use std::io::Write;
use std::net::{Ipv4Addr, Shutdown};
use std::path::Path;

use phalanx_testkit::eventually;
use phalanx_web::{Config, Scheme, Tls};

use crate::common::{connect, metric, on_each_driver, read_to_end, small_and_large};
use crate::simulation::wire::IDENTITY;

fn encrypted(home: &Path) -> Config {
    let mut config = small_and_large(home);
    let [certificate, key] = IDENTITY.files();
    config.hosts[0].tls = Some(Tls { certificate, key });
    config.listen = vec![Scheme::Https.at((Ipv4Addr::LOCALHOST, 0))];
    config.runtime.admin = Some((Ipv4Addr::LOCALHOST, 0).into());
    config
}

/// A load balancer's health check, and a connection that a browser opens in advance.
#[test]
fn connections_without_a_byte_are_not_failed_handshakes() {
    on_each_driver(encrypted, |server, _| {
        let failed = || metric(server, "tls_handshakes_failed_total").unwrap();
        let leave = |bytes: &[u8]| {
            let mut stream = connect(server);
            stream.write_all(bytes).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            read_to_end(&mut stream);
        };
        leave(b"");
        assert_eq!(failed(), 0);
        // A part of a record, no record, and a plain request.
        for (count, bytes) in [(1, &b"\x16"[..]), (2, b"\xff\xff"), (3, b"GET / HTTP/1.1\r\n\r\n")]
        {
            leave(bytes);
            eventually("a failed handshake", || (failed() == count).then_some(()));
        }
    });
}
