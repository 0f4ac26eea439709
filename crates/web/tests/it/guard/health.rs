//! The health check.

use std::io::Write;

use crate::guard::harness::{all, connect, get, on_each_driver, read_to_end, read_until};

#[test]
fn healthy_then_draining() {
    on_each_driver(
        |config, _| {
            config.health = Some("/healthz".into());
            config.per_address.requests_per_second = Some(0.001);
        },
        |server, _| {
            let well = get(server, "/healthz");
            assert!(well.starts_with("HTTP/1.1 200 OK\r\n"), "{well}");
            assert!(well.contains("Cache-Control: no-store\r\n") && well.ends_with("\r\n\r\nok\n"));
            let head = "HEAD /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
            assert!(all(server, head).ends_with("Content-Length: 3\r\n\r\n"));
            let post = "POST /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
            assert!(all(server, post).starts_with("HTTP/1.1 405 "), "only to be read");
            // The health check is exempt from the limit, which is exhausted.
            assert!(get(server, "/small").starts_with("HTTP/1.1 429 "));
            assert!(get(server, "/healthz").starts_with("HTTP/1.1 200 "));
            // An incomplete request keeps a connection open during the shutdown.
            let mut client = connect(server);
            client.write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\nGET /health").unwrap();
            read_until(&mut client, "ok\n");
            server.control.drain();
            // Shutdown reaches the processors asynchronously; a refused connection shows that it has.
            while std::net::TcpStream::connect(server.address).is_ok() {}
            client.write_all(b"z HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            let draining = read_to_end(&mut client);
            assert!(draining.starts_with("HTTP/1.1 503 "), "{draining}");
            assert!(draining.ends_with("\r\n\r\ndraining\n"));
        },
    );
}

#[test]
fn without_a_health_check_it_is_an_ordinary_path() {
    on_each_driver(
        |_, _| (),
        |server, _| {
            assert!(get(server, "/healthz").starts_with("HTTP/1.1 404 "));
        },
    );
}
