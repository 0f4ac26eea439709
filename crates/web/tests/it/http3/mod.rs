//! HTTP/3, on each driver, with an independent client.

mod client;
mod floods;
mod relay;
mod reload;
mod violations;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{
    Client, announced, announced_by, block_on, connect, connect_from, content, first_datagram,
};
use http::{Method, StatusCode};
use phalanx::runtime::DriverChoice;
use phalanx_testkit::driver::is_selected;
use phalanx_web::{Config, Scheme, Tls, serve};
use relay::Relay;

use crate::common::{Server, metric, run};
use crate::proxy::backend::passing;
use crate::proxy::bodies::echo;
use crate::proxy::multiplexed::server::{Call, H2Server, Served, head, send};
use crate::simulation::wire::IDENTITY;

/// Runs `test` against a server on each available driver, with the HTTP/3 address, and then shuts the server down.
fn on_each_driver(change: impl Fn(&Path) -> Config, test: impl Fn(&Server, SocketAddr)) {
    for driver in [DriverChoice::Uring, DriverChoice::Poll] {
        let home = tempfile::tempdir().unwrap();
        let mut config = change(home.path());
        config.listen.retain(|listen| listen.is_tls());
        if config.listen.is_empty() {
            config.listen = vec![Scheme::Https.at(([127, 0, 0, 1], 0))];
        }
        config.http3 = true;
        let [certificate, key] = IDENTITY.files();
        config.hosts[0].tls = Some(Tls { certificate, key });
        let runtime = &mut config.runtime;
        (runtime.driver, runtime.signals) = (driver, false);
        let mut started = None;
        let start = || {
            let serve = |up: std::sync::mpsc::Sender<Server>| {
                serve(config, |serving| up.send(Server::of(serving)).unwrap())
            };
            run(serve).map(|server| started = Some(server))
        };
        if !is_selected(&driver.to_string(), start) {
            continue;
        }
        let (server, thread) = started.expect("it is tested");
        test(&server, announced(&server));
        server.control.drain();
        thread.join().unwrap().unwrap();
    }
}

/// A file that takes many datagrams.
fn large() -> Vec<u8> {
    (0..700_000_u32).map(|n| (n ^ (n >> 8)) as u8).collect()
}

fn site(home: &Path) -> Config {
    let root = home.join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("large"), large()).unwrap();
    std::fs::write(root.join("small.txt"), "small").unwrap();
    let mut config = Config::with_root(&root);
    config.runtime.workers = 2;
    config.limits.body = 20_000;
    config
}

#[test]
fn files_are_served() {
    on_each_driver(site, |_, address| {
        block_on(async {
            let mut client = Client::connect(address).await;
            let (response, content) = client.get("/small.txt").await;
            assert_eq!((response.status(), &content[..]), (StatusCode::OK, &b"small"[..]));
            assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
            let announced = format!("h3=\":{}\"; ma=86400", address.port());
            assert_eq!(response.headers()["alt-svc"], announced);
            let tag = response.headers()["etag"].to_str().unwrap().to_owned();
            let ask = |method, path, fields: Vec<(&'static str, String)>| {
                let mut client = client.clone();
                async move {
                    let fields: Vec<_> = fields.iter().map(|(n, v)| (*n, v.as_str())).collect();
                    client.ask(method, path, &fields, b"").await.unwrap()
                }
            };
            // Concurrent requests on one connection.
            let all = tokio::join!(
                ask(Method::GET, "/large", vec![]),
                ask(Method::HEAD, "/large", vec![]),
                ask(Method::GET, "/large", vec![("range", "bytes=1000-300999".into())]),
                ask(Method::GET, "/small.txt", vec![("if-none-match", tag)]),
                ask(Method::GET, "/missing", vec![]),
            );
            let (whole, head, part, unchanged, missing) = all;
            assert_eq!((whole.0.status(), whole.1 == large()), (StatusCode::OK, true));
            assert_eq!(head.0.headers()["content-length"], "700000");
            assert!(head.1.is_empty());
            assert_eq!(part.0.status(), StatusCode::PARTIAL_CONTENT);
            assert!(part.1 == large()[1000..301_000]);
            assert_eq!(unchanged.0.status(), StatusCode::NOT_MODIFIED);
            assert_eq!(missing.0.status(), StatusCode::NOT_FOUND);
        });
    });
}

#[test]
fn content_of_requests_is_bounded() {
    on_each_driver(site, |_, address| {
        block_on(async {
            let mut client = Client::connect(address).await;
            for (length, status) in [(20_000, 405), (20_001, 413), (1_000_000, 413)] {
                let body = vec![b'x'; length];
                let answer = client.ask(Method::POST, "/small.txt", &[], &body).await.unwrap();
                assert_eq!(answer.0.status(), status, "{length}");
            }
            let long = "x".repeat(40_000);
            let answer = client.ask(Method::GET, "/", &[("x-long", &long)], b"").await;
            // h3 compares with the announced limit itself.
            assert!(answer.map_or_else(
                |error| error.to_string().contains("too big"),
                |answer| answer.0.status() == 431
            ));
            assert_eq!(client.get("/small.txt").await.1, b"small");
        });
    });
}

#[test]
fn requests_are_passed_to_other_servers() {
    let running = Mutex::new(None);
    let start = |_: &Path| {
        let backend = echo();
        let config = passing(backend.address, |_| ());
        *running.lock().unwrap() = Some(backend);
        config
    };
    on_each_driver(start, |_, address| {
        let _backend = running.lock().unwrap().take().expect("it was started");
        block_on(async {
            let mut client = Client::connect(address).await;
            let body: Vec<u8> = large()[..500_000].to_vec();
            for length in [0, 1, 500_000] {
                let length_field = length.to_string();
                let fields = [("content-length", &length_field[..])];
                let body = &body[..length];
                let (response, content) =
                    client.ask(Method::POST, "/api/echo", &fields, body).await.unwrap();
                assert_eq!(response.status(), StatusCode::OK);
                assert!(content == body, "{} of {length} bytes", content.len());
                let announced = format!("h3=\":{}\"; ma=86400", address.port());
                assert_eq!(response.headers()["alt-svc"], announced);
            }
        });
    });
}

/// Clients get the trailers of a server with HTTP/2.
#[test]
fn trailers_of_other_servers() {
    let serve = |(_, mut respond, _): Call| -> Served {
        Box::pin(async move {
            let mut answer = respond.send_response(head(200), false).unwrap();
            send(&mut answer, "hello".into(), false).await;
            let mut trailers = http::HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().unwrap());
            answer.send_trailers(trailers).unwrap();
        })
    };
    let running = Mutex::new(None);
    let start = |_: &Path| {
        let backend = H2Server::new(100, serve);
        let to = vec![format!("h2c://{}", backend.address).parse().unwrap()];
        let config = passing(backend.address, |proxy| proxy.to = to.clone());
        *running.lock().unwrap() = Some(backend);
        config
    };
    on_each_driver(start, |_, address| {
        let _backend = running.lock().unwrap().take().expect("it was started");
        block_on(async {
            let mut client = Client::connect(address).await;
            let mut stream = client.begin("/api/x").await;
            assert_eq!(content(&mut stream).await.unwrap(), b"hello");
            let trailers = stream.recv_trailers().await.unwrap().expect("trailers");
            assert_eq!((trailers.len(), &trailers["grpc-status"]), (1, &"0".parse().unwrap()));
        });
    });
}

#[test]
fn connections_are_bounded() {
    let start = |home: &Path| Config { max_connections: 1, ..site(home) };
    on_each_driver(start, |_, address| {
        block_on(async {
            // A late packet to another test's server, which had this port before, may occupy the only connection.
            let quic = loop {
                if let Ok(quic) = connect(address).await {
                    break quic;
                }
            };
            let mut first = Client::over(quic).await;
            let refused = connect(address).await.unwrap_err();
            let is_refused = matches!(&refused, quinn::ConnectionError::ConnectionClosed(close)
                if u64::from(close.error_code) == 2);
            assert!(is_refused, "CONNECTION_REFUSED: {refused:?}");
            assert_eq!(first.get("/small.txt").await.1, b"small");
            first.quic.close(0x100_u32.into(), b"");
            // The connection is closed as soon as the server knows.
            while connect(address).await.is_err() {
                tokio::task::yield_now().await;
            }
        });
    });
}

#[test]
fn a_drain_finishes_requests() {
    on_each_driver(site, |server, address| {
        block_on(async {
            let mut client = Client::connect(address).await;
            let mut stream = client.begin("/large").await;
            assert_eq!(client.get("/small.txt").await.1, b"small");
            server.control.drain();
            assert!(content(&mut stream).await.unwrap() == large());
            drop(stream);
            // H3_NO_ERROR, after GOAWAY.
            let closed = client.quic.closed().await;
            let code: u64 = match closed {
                quinn::ConnectionError::ApplicationClosed(close) => close.error_code.into(),
                other => panic!("{other:?}"),
            };
            assert_eq!(code, 0x100);
            assert!(client.ask(Method::GET, "/small.txt", &[], b"").await.is_err());
        });
    });
}

#[test]
fn a_client_may_change_its_address() {
    on_each_driver(site, |_, address| {
        block_on(async {
            let (endpoint, quic) = connect_from(address).await.unwrap();
            let mut client = Client::over(quic).await;
            // With two processors, about half of the new ports would be those of the other one.
            for _ in 0..8 {
                assert_eq!(client.get("/small.txt").await.1, b"small");
                endpoint.rebind(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
            }
            assert_eq!(client.get("/small.txt").await.1, b"small");
        });
    });
}

/// A handshake reaches one processor even if the number of active ones changes meanwhile.
#[test]
fn connections_begin_while_processors_become_inactive() {
    on_each_driver(site, |server, address| {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    for count in [1, 2] {
                        server.active.set(count);
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
            let clients = scope.spawn(|| {
                block_on(async {
                    for _ in 0..20 {
                        let mut client = Client::connect(address).await;
                        assert_eq!(client.get("/small.txt").await.1, b"small");
                    }
                });
            });
            let outcome = clients.join();
            ended.store(true, Ordering::Relaxed);
            outcome.expect("every client got its answer");
        });
    });
}

#[test]
fn clients_prove_their_address_under_load() {
    let start = |home: &Path| {
        let mut config = site(home);
        config.runtime.workers = 1;
        config.timeouts.handshake = phalanx_testkit::TIMEOUT;
        config.runtime.admin = Some(([127, 0, 0, 1], 0).into());
        config
    };
    on_each_driver(start, |server, address| {
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let retries = || metric(server, "quic_retries_total").unwrap();
        // These handshakes never complete.
        phalanx_testkit::eventually("a client is asked", || {
            silent.send_to(&first_datagram(address), address).unwrap();
            (retries() > 0).then_some(())
        });
        let before = retries();
        block_on(async {
            let mut client = Client::connect(address).await;
            assert_eq!(client.get("/small.txt").await.1, b"small");
        });
        assert_eq!(retries(), before + 1);
    });
}

#[test]
fn clients_prove_an_address_that_has_a_limit_of_requests() {
    let start = |home: &Path| {
        let mut config = site(home);
        (config.per_address.requests_per_second, config.per_address.burst) = (Some(1e3), 1000);
        config.runtime.admin = Some(([127, 0, 0, 1], 0).into());
        config
    };
    on_each_driver(start, |server, address| {
        block_on(async {
            let mut client = Client::connect(address).await;
            assert_eq!(client.get("/small.txt").await.1, b"small");
        });
        assert_eq!(metric(server, "quic_retries_total"), Some(1));
    });
}

#[test]
fn forged_addresses_take_no_slots() {
    let start = |home: &Path| {
        let mut config = site(home);
        config.runtime.workers = 1;
        config.per_address.connections = Some(2);
        config.timeouts.handshake = phalanx_testkit::TIMEOUT;
        config.runtime.admin = Some(([127, 0, 0, 1], 0).into());
        config
    };
    on_each_driver(start, |server, address| {
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..4 {
            silent.send_to(&first_datagram(address), address).unwrap();
        }
        block_on(async {
            let mut clients = Vec::new();
            while clients.len() < 2 {
                // The connection that has asked for the address may still count.
                if let Ok(quic) = connect(address).await {
                    clients.push(Client::over(quic).await);
                }
            }
            for client in &mut clients {
                assert_eq!(client.get("/small.txt").await.1, b"small");
            }
            assert!(connect(address).await.is_err(), "the limit applies to proven addresses");
        });
        assert!(metric(server, "quic_retries_total") >= Some(4 + 3));
    });
}

/// A drain waits until the client has acknowledged its responses.
#[test]
fn a_drain_finishes_responses_that_were_lost() {
    let start = |home: &Path| {
        let mut config = site(home);
        config.runtime.admin = Some(([127, 0, 0, 1], 0).into());
        config
    };
    on_each_driver(start, |server, address| {
        let responses = || metric(server, "http_requests_total{code=\"200\"}").unwrap();
        block_on(async {
            let relay = Relay::to(address).await;
            let quic = connect(relay.address).await.unwrap();
            let mut client = Client::over(quic).await;
            assert_eq!(client.get("/small.txt").await.1, b"small");
            let answered = responses();
            relay.set_deaf(true);
            let lost = tokio::spawn(async move { client.get("/small.txt").await.1 });
            while responses() == answered {
                tokio::task::yield_now().await;
            }
            server.control.drain();
            // Longer than a drained connection without requests lives.
            tokio::time::sleep(Duration::from_millis(1500)).await;
            relay.set_deaf(false);
            assert_eq!(lost.await.unwrap(), b"small");
        });
    });
}

#[test]
fn each_address_announces_its_own_port() {
    let start = |home: &Path| {
        let listen = [1, 2].map(|last| Scheme::Https.at(([127, 0, 0, last], 0)));
        Config { listen: listen.into(), ..site(home) }
    };
    on_each_driver(start, |server, _| {
        let tls = IDENTITY.client_config();
        let udp = [0, 1].map(|at| announced_by(&tls, server.addresses[at]));
        block_on(async {
            for address in udp {
                let (response, _) = Client::connect(address).await.get("/small.txt").await;
                let own = format!("h3=\":{}\"; ma=86400", address.port());
                assert_eq!(response.headers()["alt-svc"], own);
            }
        });
    });
}
