//! Rules about addresses for some paths.

use std::sync::Mutex;

use phalanx_testkit::http2::Connection;
use phalanx_web::{Access, Proxy, Rewrite};

use crate::guard::harness::{Server, all, on_each_driver};
use crate::proxy::backend::Backend;

/// The status of the response to a request of a client that a trusted proxy names.
fn status(server: &Server, client: &str, line: &str) -> u16 {
    let fields = format!("X-Forwarded-For: {client}\r\nHost: h\r\nConnection: close\r\n");
    let answer = all(server, &format!("{line} HTTP/1.1\r\n{fields}\r\n"));
    answer[9..12].parse().unwrap_or_else(|_| panic!("{answer}"))
}

#[test]
fn paths_are_for_some_addresses() {
    let running = Mutex::new(None);
    on_each_driver(
        |config, home| {
            let backend = Backend::new(|mut peer, _| {
                while let Some(head) = peer.head() {
                    assert!(!head.contains("/api/admin") || head.contains("For: 10."), "{head}");
                    peer.say("HTTP/1.1 204 No Content\r\n\r\n");
                }
            });
            std::fs::create_dir(home.join("root/admin")).unwrap();
            std::fs::write(home.join("root/admin/index.html"), "inside").unwrap();
            let networks = |text: &str| vec![text.parse().unwrap()];
            let rule = |path: &str| Access {
                path: path.into(),
                allow: networks("10.0.0.0/8"),
                deny: networks("10.0.0.9"),
            };
            let host = &mut config.hosts[0];
            host.access = vec![rule("/admin/**"), rule("/api/admin/**")];
            host.rewrites = vec![Rewrite { from: "/other/**".into(), to: "/admin/$rest".into() }];
            let to = vec![format!("http://{}", backend.address).parse().unwrap()];
            host.proxies = vec![Proxy { prefix: "/api".into(), to, ..Proxy::default() }];
            config.real_ip_from = networks("127.0.0.1");
            config.h2c = true;
            *running.lock().unwrap() = Some(backend);
        },
        |server, _| {
            for (line, when_admitted) in [
                ("GET /small", 200),
                ("GET /admin/", 200),
                ("GET /admin/none", 404),
                ("GET //admin/index.html", 200),
                ("GET /%61dmin/./", 200),
                ("GET /other/index.html", 200),
                ("GET /api/x", 204),
                ("POST /api/admin", 204),
                ("OPTIONS /api/admin", 204),
                ("OPTIONS /admin/", 204),
            ] {
                let is_open = matches!(line, "GET /small" | "GET /api/x");
                let otherwise = if is_open { when_admitted } else { 403 };
                assert_eq!(status(server, "10.1.2.3", line), when_admitted, "{line}");
                for client in ["10.0.0.9", "192.0.2.1"] {
                    assert_eq!(status(server, client, line), otherwise, "{client} {line}");
                }
                // The proxy itself.
                assert_eq!(status(server, "nobody", line), otherwise, "{line}");
            }
            let mut client = Connection::open(server.address, &[]);
            for (stream, address, wanted) in [(1, "10.1.2.3", 200), (3, "10.0.0.9", 403)] {
                let head = [
                    (":method", "GET"),
                    (":scheme", "http"),
                    (":path", "/admin/"),
                    (":authority", "h"),
                    ("x-forwarded-for", address),
                ];
                client.headers(stream, true, &head);
                assert_eq!(client.answer(stream).0, wanted, "{address}");
            }
            drop(running.lock().unwrap().take());
        },
    );
}
