//! Clients behind proxies that are trusted to name them.

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use phalanx_testkit::eventually;
use phalanx_web::{AccessLog, Config, ForwardedField, LogFormat, LogTarget, Proxy};

use crate::guard::harness::{Server, all, connect, on_each_driver, read_to_end, read_until};
use crate::proxy::backend::Backend;

fn network(text: &str) -> Vec<phalanx_web::Network> {
    vec![text.parse().unwrap()]
}

/// Trusts the clients of the test, and logs to a file.
fn trusting(config: &mut Config, home: &Path) {
    config.real_ip_from = network("127.0.0.0/8");
    let target = LogTarget::File(home.join("log"));
    config.access_log = Some(AccessLog { format: LogFormat::Common, target });
}

/// Waits until the log has `count` lines; returns the addresses in them, sorted, since each processor writes its own.
fn logged(home: &Path, count: usize) -> Vec<String> {
    eventually("lines in the log", || {
        let text = std::fs::read_to_string(home.join("log")).unwrap_or_default();
        let address = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        let mut found: Vec<_> = text.lines().map(address).collect();
        found.sort();
        (found.len() >= count).then_some(found)
    })
}

fn request(fields: &str) -> String {
    format!("GET /small HTTP/1.1\r\nHost: h\r\n{fields}\r\n")
}

#[test]
fn requests_of_named_clients() {
    on_each_driver(
        |config, home| {
            trusting(config, home);
            config.deny = network("192.0.2.0/24");
            config.per_address.connections = Some(1);
            (config.per_address.requests_per_second, config.per_address.burst) = (Some(0.01), 1);
        },
        |server, home| {
            // Two connections of the proxy at once, although an address may have one.
            let (mut first, mut second) = (connect(server), connect(server));
            for (client, stream) in
                [("6.6.6.6, 198.51.100.1", &mut first), ("198.51.100.2", &mut second)]
            {
                for _ in 0..2 {
                    let fields = format!("X-Forwarded-For: {client}\r\n");
                    stream.write_all(request(&fields).as_bytes()).unwrap();
                    read_until(stream, "\r\n\r\nsmall");
                }
            }
            // The limit applies to the client, whichever connection it uses.
            let fields = "X-Forwarded-For: 198.51.100.2\r\nConnection: close\r\n";
            let answer = all(server, &request(fields));
            assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
            let fields = "X-Forwarded-For: 192.0.2.7\r\nConnection: close\r\n";
            let answer = all(server, &request(fields));
            assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
            let addresses = logged(home, 6);
            let wanted =
                ["192.0.2.7", "198.51.100.1", "198.51.100.1", "198.51.100.2", "198.51.100.2"];
            assert_eq!(addresses[..5], wanted);
        },
    );
}

#[test]
fn a_client_that_is_not_trusted_names_nobody() {
    on_each_driver(
        |config, home| {
            trusting(config, home);
            config.real_ip_from = network("10.0.0.0/8");
            config.real_ip_field = ForwardedField::Forwarded;
        },
        |server, home| {
            all(server, &request("Forwarded: for=198.51.100.1\r\nConnection: close\r\n"));
            assert_eq!(logged(home, 1), ["127.0.0.1"]);
        },
    );
}

/// Sends a PROXY header and a request; returns the response.
fn proxied(server: &Server, header: &[u8]) -> String {
    proxied_with(server, header, "")
}

/// The same with additional fields of the request.
fn proxied_with(server: &Server, header: &[u8], fields: &str) -> String {
    let mut stream = connect(server);
    // In two parts, so that the server has to wait.
    let (start, end) = header.split_at(header.len() / 2);
    stream.write_all(start).unwrap();
    let fields = format!("{fields}Connection: close\r\n");
    let end = [end, request(&fields).as_bytes()].concat();
    // The server may have closed the connection.
    let _ = stream.write_all(&end);
    read_to_end(&mut stream)
}

/// A header of version 2 with this command and IPv4 client.
fn version2(command: u8, client: [u8; 4]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([command, 0x11, 0, 12]);
    header.extend(client);
    header.extend([127, 0, 0, 1, 0x12, 0x34, 0, 80]);
    header
}

#[test]
fn load_balancers_name_the_client_of_a_connection() {
    on_each_driver(
        |config, home| {
            trusting(config, home);
            config.listen[0].proxied = true;
            config.deny = network("192.0.2.0/24");
        },
        |server, home| {
            let text = b"PROXY TCP4 198.51.100.1 127.0.0.1 4711 80\r\n";
            for header in [text, &version2(0x21, [198, 51, 100, 1])[..]] {
                let answer = proxied(server, header);
                assert!(answer.ends_with("\r\n\r\nsmall"), "{answer}");
            }
            // The load balancer itself, to see whether the server is alive.
            assert!(proxied(server, &version2(0x20, [0; 4])).ends_with("small"));
            assert_eq!(logged(home, 3), ["127.0.0.1", "198.51.100.1", "198.51.100.1"]);
            // A header without an address may stand for any client, so the fields of the request are ignored.
            for header in [&version2(0x20, [0; 4])[..], b"PROXY UNKNOWN\r\n"] {
                let answer = proxied_with(server, header, "X-Forwarded-For: 198.51.100.9\r\n");
                assert!(answer.ends_with("small"), "{answer}");
            }
            assert_eq!(logged(home, 5)[..3], ["127.0.0.1"; 3]);
            // Refused: by address; without a header; with a malformed one.
            assert_eq!(proxied(server, &version2(0x21, [192, 0, 2, 1])), "");
            assert_eq!(proxied(server, b""), "");
            assert_eq!(proxied(server, b"PROXY TCP4 1.2.3.4.5 1.2.3.4 1 2\r\n"), "");
            assert_eq!(logged(home, 5).len(), 5);
        },
    );
}

/// The load balancer terminates TLS, and says so in its header or in a field of the request.
#[test]
fn servers_learn_that_a_client_uses_tls() {
    let running = Mutex::new(None);
    on_each_driver(
        |config, home| {
            trusting(config, home);
            config.listen[0].proxied = true;
            config.real_ip_host = true;
            let backend = Backend::new(|mut peer, _| {
                while let Some(head) = peer.head() {
                    let length = head.len();
                    peer.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{head}"));
                }
            });
            let to = vec![format!("http://{}", backend.address).parse().unwrap()];
            config.hosts[0].proxies =
                vec![Proxy { prefix: "/small".into(), to, ..Proxy::default() }];
            *running.lock().unwrap() = Some(backend);
        },
        |server, _| {
            let plain = version2(0x21, [198, 51, 100, 1]);
            let of_tls = |client: u8| {
                let mut header = plain.clone();
                header[15] += 8;
                header.extend([0x20, 0, 5, client, 0, 0, 0, 0]);
                header
            };
            // If the header names a trusted proxy, the scheme and host are those that this proxy names.
            let mut of_proxy = of_tls(1);
            of_proxy[16..20].copy_from_slice(&[127, 0, 0, 7]);
            let fields = "X-Forwarded-Proto: HTTP\r\nX-Forwarded-Host: b.test\r\n";
            for (header, fields, proto, host) in [
                (&plain, "", "http", "h"),
                (&of_tls(1), "", "https", "h"),
                (&of_tls(0), "", "http", "h"),
                (&of_tls(1), fields, "https", "h"),
                (&of_proxy, fields, "http", "b.test"),
            ] {
                let answer = proxied_with(server, header, fields);
                let wanted = format!("X-Forwarded-Proto: {proto}\r\nX-Forwarded-Host: {host}\r\n");
                assert!(answer.contains(&wanted), "{wanted}: {answer}");
            }
            drop(running.lock().unwrap().take());
        },
    );
}

#[test]
fn a_header_of_another_client_is_refused() {
    on_each_driver(
        |config, home| {
            trusting(config, home);
            config.listen[0].proxied = true;
            config.real_ip_from = network("10.0.0.0/8");
        },
        |server, _| {
            assert_eq!(proxied(server, b"PROXY TCP4 198.51.100.1 127.0.0.1 4711 80\r\n"), "");
        },
    );
}

#[test]
fn a_header_that_does_not_end_is_not_waited_for() {
    on_each_driver(
        |config, home| {
            trusting(config, home);
            config.listen[0].proxied = true;
            config.timeouts.handshake = std::time::Duration::from_millis(300);
        },
        |server, _| {
            let mut slow = connect(server);
            slow.write_all(b"PROXY TCP4 198.51.").unwrap();
            assert_eq!(read_to_end(&mut slow), "");
        },
    );
}
