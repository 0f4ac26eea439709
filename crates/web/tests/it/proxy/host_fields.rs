//! Fields that a host adds to the responses of other servers: for protected paths, and over TLS.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Mutex;

use phalanx_testkit::http::Client;
use phalanx_testkit::tcp;
use phalanx_web::{Access, CacheRule, Config, Redirect, RedirectStatus, Rewrite, Scheme, Tls};
use phalanx_web::{HostConfig, SecurityHeaders};
use rustls::{ClientConnection, StreamOwned};

use crate::common::on_each_driver;
use crate::proxy::backend::{Backend, down, passing};
use crate::simulation::wire::IDENTITY;

/// A server whose responses allow shared caches, and claim a policy.
fn cacheable() -> Backend {
    Backend::new(|mut peer, _| {
        while let Some(head) = peer.head() {
            let fields = match head.split(' ').nth(1).unwrap() {
                path if path.ends_with("/none") => "",
                path if path.ends_with("/two") => {
                    "Cache-Control: public\r\nCACHE-control: no-cache\r\n"
                }
                path if path.ends_with("/quoted") => {
                    "Cache-Control: s-maxage=9, no-store, x=\"a, b\"\r\n"
                }
                _ => {
                    "Cache-Control: public, max-age=60\r\nStrict-Transport-Security: max-age=1\r\n"
                }
            };
            peer.say(format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{fields}\r\n"));
        }
    })
}

fn protect(host: &mut HostConfig) {
    let rule = |path: &str| Access {
        path: path.into(),
        allow: vec!["127.0.0.0/8".parse().unwrap()],
        deny: Vec::new(),
    };
    host.access = vec![rule("/api/admin/**"), rule("/private/**")];
}

#[test]
fn protected_responses_are_not_for_shared_caches() {
    let running = Mutex::new(None);
    on_each_driver(
        |home| {
            let backend = cacheable();
            let mut config = passing(backend.address, |_| ());
            fs::create_dir_all(home.join("private/folder")).unwrap();
            fs::write(home.join("private/file"), "inside").unwrap();
            fs::write(home.join("app.html"), "app").unwrap();
            let host = &mut config.hosts[0];
            host.root = home.into();
            host.fallback = Some("app.html".into());
            let public = "public, max-age=60".to_owned();
            host.cache_control =
                vec![CacheRule { path: "/**".into(), value: public, preset: None }];
            host.rewrites = vec![Rewrite { from: "/private/to".into(), to: "/app.html".into() }];
            host.redirects = vec![Redirect {
                from: "/private/gone".into(),
                to: "/".into(),
                status: RedirectStatus::default(),
            }];
            protect(host);
            *running.lock().unwrap() = Some(backend);
            config
        },
        |server, _| {
            let mut client = Client::connect(server.address);
            for (path, status, wanted) in [
                ("/api/x", 200, &["public, max-age=60"][..]),
                ("/api/admin/x", 200, &["private, max-age=60"]),
                ("/api/%61dmin/x", 200, &["private, max-age=60"]),
                ("/api/admin/none", 200, &["private"]),
                ("/api/admin/two", 200, &["private, no-cache"]),
                ("/api/admin/quoted", 200, &["private, no-store"]),
                ("/private/file", 200, &["private, max-age=60"]),
                ("/private/folder", 301, &["private"]),
                ("/private/gone", 308, &["private"]),
                ("/private/none", 404, &["private"]),
                ("/other/none", 404, &[]),
                // A file that is public by another path.
                ("/app.html", 200, &["public, max-age=60"]),
                ("/private/to", 200, &["private", "public, max-age=60"]),
            ] {
                let response = client.get(path);
                assert_eq!(response.status, status, "{path}");
                let all: Vec<_> = response.values("cache-control").collect();
                assert_eq!(all, wanted, "{path}");
            }
            drop(running.lock().unwrap().take());
        },
    );
}

/// Responses that depend on `Accept` tell caches this with `Vary`.
#[test]
fn responses_of_a_host_with_a_fallback_vary() {
    on_each_driver(
        |home| {
            fs::write(home.join("app.html"), "app").unwrap();
            let mut config = Config::with_root(home);
            config.hosts[0].fallback = Some("app.html".into());
            config
        },
        |server, _| {
            let mut client = Client::connect(server.address);
            let page = "Accept: text/html\r\n";
            let range = "Accept: text/html\r\nRange: bytes=0-1\r\n";
            for (path, lines, status, varies) in [
                ("/none", "", 404, true),
                ("/none", "Accept: image/png\r\n", 404, true),
                ("/none", page, 200, true),
                ("/none", range, 206, true),
                ("/app.html", page, 200, false),
                ("/app.html", "", 200, false),
            ] {
                let response = client.get_with(path, lines);
                assert_eq!(response.status, status, "{path} {lines}");
                let found = response.field("vary") == Some("Accept");
                assert_eq!(found, varies, "{path} {lines}");
            }
        },
    );
}

/// Sends a request over TLS. Returns the response.
fn over_tls(address: SocketAddr, path: &str, more: &str) -> String {
    let name = "sim.test".try_into().unwrap();
    let session = ClientConnection::new(IDENTITY.client_config(), name).unwrap();
    let mut stream = StreamOwned::new(session, tcp::connect(address));
    let request = format!("{path} HTTP/1.1\r\nHost: sim.test\r\nConnection: close\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn all_responses_over_tls_require_it() {
    let running = Mutex::new(None);
    on_each_driver(
        |home| {
            let backend = cacheable();
            let mut config = passing(backend.address, |_| ());
            let url = format!("http://{}", down());
            let mut broken = config.hosts[0].proxies[0].clone();
            (broken.prefix, broken.to) = ("/down".into(), vec![url.parse().unwrap()]);
            let host = &mut config.hosts[0];
            host.root = home.into();
            host.proxies.push(broken);
            let [certificate, key] = IDENTITY.files();
            host.tls = Some(Tls { certificate, key });
            let value = Some("max-age=7".to_owned());
            host.security_headers = Some(SecurityHeaders {
                strict_transport_security: value,
                ..SecurityHeaders::default()
            });
            config.listen = vec![Scheme::Https.at(([127, 0, 0, 1], 0))];
            (config.per_address.requests_per_second, config.per_address.burst) = (Some(0.001), 7);
            *running.lock().unwrap() = Some(backend);
            config
        },
        |server, _| {
            let large = format!("Content-Length: {}\r\n", 1_u64 << 40);
            for (request, more, status) in [
                ("GET /none", "", 404),
                ("GET /api/x", "", 200),
                ("GET /down", "", 502),
                ("TRACE /api", "", 501),
                ("PUT /api", &large[..], 413),
                ("PUT /x", &large[..], 413),
                ("GET /", "", 404),
                ("GET /", "", 404),
                ("GET /", "", 404),
                ("GET /", "", 429),
            ] {
                let text = over_tls(server.address, request, more);
                assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {text}");
                let name = "strict-transport-security: ";
                let lower = text.to_ascii_lowercase();
                let found: Vec<_> =
                    lower.lines().filter_map(|line| line.strip_prefix(name)).collect();
                assert_eq!(found, ["max-age=7"], "{request}: {text}");
            }
            drop(running.lock().unwrap().take());
        },
    );
}
