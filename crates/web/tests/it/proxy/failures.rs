//! Servers that fail.

use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use phalanx_testkit::http::Client;
use phalanx_testkit::{eventually, tcp};

use crate::common::{LARGE, Server, all, connect, get, metric, on_each_driver, read_to_end};
use crate::proxy::backend::{Backend, down, passing};
use crate::proxy::with;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

#[test]
fn a_server_that_is_down_is_502() {
    on_each_driver(
        |_| passing(down(), |_| ()),
        |server, _| {
            let mut client = Client::connect(server.address);
            for _ in 0..5 {
                // The only server is tried even while it is ejected.
                let response = client.get("/api");
                assert_eq!(response.status, 502);
            }
            assert_eq!(client.get("/missing").status, 404, "the connection stays open");
            let text = all(server, "POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n123");
            assert!(
                text.starts_with("HTTP/1.1 502 ") && text.contains("Connection: close"),
                "{text}"
            );
        },
    );
}

/// Errors that the proxy makes itself have the error pages of the host.
#[test]
fn failures_have_error_pages() {
    let configure = |home: &std::path::Path| {
        let mut config = passing(down(), |proxy| proxy.max_body = 10);
        for page in ["502.html", "413.html"] {
            std::fs::write(home.join(page), format!("own {page}")).unwrap();
        }
        let host = &mut config.hosts[0];
        host.root = home.into();
        host.error_pages = vec![(502, "502.html".into()), (413, "/413.html".into())];
        config.h2c = true;
        config
    };
    on_each_driver(configure, |server, _| {
        let mut client = Client::connect(server.address);
        for _ in 0..2 {
            let response = client.get("/api");
            assert_eq!((response.status, response.text()), (502, "own 502.html"));
            assert_eq!(response.first("Content-Type"), Some("text/html; charset=utf-8"));
            assert_eq!(response.first("Cache-Control"), Some("no-store"));
        }
        let head = client.head_with("/api", "");
        assert_eq!((head.status, head.first("Content-Length")), (502, Some("12")));
        let text = all(server, "POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n");
        assert!(
            text.starts_with("HTTP/1.1 413 ") && text.ends_with("\r\n\r\nown 413.html"),
            "{text}"
        );
        let mut other = phalanx_testkit::http2::Connection::open(server.address, &[]);
        other.get(1, "/api");
        assert_eq!(other.answer(1), (502, b"own 502.html".to_vec()));
    });
}

#[test]
fn a_slow_server_is_504() {
    let backend = || Backend::new(|mut peer, _| peer.drain());
    with(
        backend,
        |proxy| proxy.response_timeout = Duration::from_millis(30),
        |server, _| {
            assert!(get(server, "/api").starts_with("HTTP/1.1 504 "));
            let mut client = connect(server);
            let text =
                "PUT /api HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
            client.write_all(text.as_bytes()).unwrap();
            assert!(read_to_end(&mut client).starts_with("HTTP/1.1 504 "));
        },
    );
}

/// The time limit covers the whole head. Single bytes do not restart it.
#[test]
fn a_server_that_sends_single_bytes_is_504() {
    let backend = || {
        Backend::new(|mut peer, _| {
            peer.head();
            let head = format!("HTTP/1.1 200 OK\r\nX: {:0100}\r\nContent-Length: 0\r\n\r\n", 0);
            for byte in head.bytes() {
                if peer.stream.write_all(&[byte]).is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(20));
            }
        })
    };
    with(
        backend,
        |proxy| proxy.response_timeout = Duration::from_millis(60),
        |server, _| assert!(get(server, "/api").starts_with("HTTP/1.1 504 ")),
    );
}

/// The server closes its connection after the first response without announcing it.
#[test]
fn requests_that_may_be_repeated_are() {
    let backend = || {
        Backend::new(|mut peer, number| {
            if peer.head().is_some() {
                peer.say(OK);
            }
            if number == 0 {
                // The server reads the second request before it closes, so the proxy always sends it on this
                // connection.
                peer.head();
            }
        })
    };
    with(
        backend,
        |_| (),
        |server, backend| {
            let mut client = Client::connect(server.address);
            assert_eq!(client.get("/api").text(), "hi");
            assert_eq!(client.get("/api").text(), "hi", "sent again");
            assert_eq!(backend.accepted(), 2);
        },
    );
    with(
        backend,
        |_| (),
        |server, backend| {
            let mut client = Client::connect(server.address);
            assert_eq!(client.get("/api").text(), "hi");
            client.send("POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
            let status = client.response().status;
            // On a busy machine the connection may have been unused for too long, so a new one is opened.
            assert!(
                status == 502 || backend.accepted() == 2,
                "it may have been processed: {status}"
            );
        },
    );
}

/// A request is not repeated once a part of a response has arrived.
#[test]
fn an_interim_response_is_an_answer() {
    let backend = || {
        Backend::new(|mut peer, number| {
            peer.head();
            peer.say(if number == 0 { OK } else { "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n" });
            if peer.head().is_some() {
                peer.say("HTTP/1.1 103 Early Hints\r\n\r\n");
            }
        })
    };
    with(
        backend,
        |_| (),
        |server, backend| {
            let mut client = Client::connect(server.address);
            assert_eq!(client.get("/api").text(), "hi");
            assert_eq!((client.get("/api").status, backend.accepted()), (502, 1));
        },
    );
}

/// Another server gets the requests that one cannot take.
#[test]
fn another_server_takes_over() {
    let backend = || {
        Backend::new(|mut peer, _| {
            while peer.head().is_some() {
                peer.say(OK);
            }
        })
    };
    let change = |proxy: &mut phalanx_web::Proxy| {
        proxy.to.insert(0, format!("http://{}", down()).parse().unwrap());
    };
    with(backend, change, |server, _| {
        let mut client = Client::connect(server.address);
        for _ in 0..20 {
            assert_eq!(client.get("/api").status, 200);
        }
    });
}

/// A request whose body cannot be sent again uses no connection that the server may be closing.
#[test]
fn a_body_gets_a_fresh_connection() {
    let backend = || {
        Backend::new(|mut peer, _| {
            while let Some(head) = peer.head() {
                let length = if head.starts_with("PUT ") { 2 } else { 0 };
                peer.body(length);
                peer.say(OK);
            }
        })
    };
    with(
        backend,
        |_| (),
        |server, backend| {
            let mut client = Client::connect(server.address);
            assert_eq!(client.get("/api").text(), "hi");
            // The pause is longer than a connection for such a request may have been unused.
            thread::sleep(Duration::from_millis(1800));
            client.send("PUT /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab");
            assert_eq!(client.response().text(), "hi");
            assert_eq!(backend.accepted(), 2);
        },
    );
}

/// A server that ends each response early gets no more requests for a while, although each begins well.
#[test]
fn a_server_that_truncates_its_responses_is_ejected() {
    let running = Mutex::new(None);
    on_each_driver(
        |_| {
            let truncating = Backend::new(|mut peer, _| {
                if peer.head().is_some() {
                    peer.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi");
                }
            });
            let mut config = passing(truncating.address, |_| ());
            config.runtime.admin = Some((Ipv4Addr::LOCALHOST, 0).into());
            *running.lock().unwrap() = Some(truncating);
            config
        },
        |server, _| {
            let ejections = || metric(server, "http_upstream_ejections_total");
            for n in 0..3 {
                assert_eq!(ejections(), Some(0), "{n}");
                assert!(get(server, "/api").ends_with("\r\n\r\nhi"));
            }
            eventually("an ejection", || ejections().filter(|count| *count > 0));
            drop(running.lock().unwrap().take());
        },
    );
}

/// Runs `test` with a proxy before `backend`, and the counts of failures for a reason, and of ejections.
fn counting(
    backend: impl Fn() -> Backend,
    test: impl Fn(&Server, &dyn Fn(&str) -> Option<usize>, &dyn Fn() -> Option<usize>),
) {
    let running = Mutex::new(None);
    on_each_driver(
        |_| {
            let backend = backend();
            let mut config = passing(backend.address, |_| ());
            config.runtime.admin = Some((Ipv4Addr::LOCALHOST, 0).into());
            config.max_queue_delay = None;
            *running.lock().unwrap() = Some(backend);
            config
        },
        |server, _| {
            let failures = |reason: &str| {
                metric(server, &format!("http_upstream_failures_total{{reason=\"{reason}\"}}"))
            };
            test(server, &failures, &|| metric(server, "http_upstream_ejections_total"));
            drop(running.lock().unwrap().take());
        },
    );
}

/// A server gives up because clients do not read their responses.
#[test]
fn slow_readers_eject_no_server() {
    let given_up = Arc::new(AtomicUsize::new(0));
    let backend = || {
        given_up.store(0, Ordering::Relaxed);
        let given_up = given_up.clone();
        Backend::new(move |mut peer, _| {
            if peer.head().is_some() {
                peer.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"));
                peer.stream.set_write_timeout(Some(Duration::from_millis(1200))).unwrap();
                peer.say(vec![0; LARGE]);
                given_up.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    counting(backend, |server, failures, ejections| {
        let text = "GET /api HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut clients: Vec<_> = (0..3).map(|_| connect(server)).collect();
        for client in &mut clients {
            client.write_all(text.as_bytes()).unwrap();
        }
        eventually("the server gives up", || (given_up.load(Ordering::Relaxed) == 3).then_some(()));
        for client in &clients {
            assert!(tcp::read_to_end(client).len() < LARGE);
        }
        eventually("the failures", || failures("client-closed").filter(|count| *count == 3));
        assert_eq!((failures("truncated"), ejections()), (Some(0), Some(0)));
    });
}

/// A server closes connections whose requests do not arrive, unless it does so immediately.
#[test]
fn slow_uploads_eject_no_server() {
    let backend = || {
        Backend::new(|mut peer, _| {
            if peer.head().is_some_and(|head| head.starts_with("POST /api/slow ")) {
                thread::sleep(Duration::from_millis(1200));
            }
        })
    };
    counting(backend, |server, failures, ejections| {
        let fail = |path: &str| {
            let text = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n");
            assert!(all(server, &text).starts_with("HTTP/1.1 502 "));
        };
        (0..3).for_each(|_| fail("/api/slow"));
        assert_eq!((failures("closed"), ejections()), (Some(3), Some(0)));
        // On a busy machine a server may be slow to close: then its failure does not count either.
        let mut count = 3;
        eventually("an ejection", || {
            fail("/api/fast");
            count += 1;
            ejections().filter(|count| *count == 1)
        });
        assert!(count >= 6 && failures("closed") == Some(count), "{count}");
    });
}

/// A server that has nothing to say for a while, as with events, is not ejected.
#[test]
fn a_server_that_pauses_in_a_response_stays_good() {
    let running = Mutex::new(None);
    on_each_driver(
        |_| {
            let pausing = Backend::new(|mut peer, _| {
                if peer.head().is_some() {
                    peer.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi");
                    peer.drain();
                }
            });
            let mut config = passing(pausing.address, |proxy| {
                proxy.idle_timeout = Duration::from_millis(50);
            });
            config.runtime.admin = Some((Ipv4Addr::LOCALHOST, 0).into());
            *running.lock().unwrap() = Some(pausing);
            config
        },
        |server, _| {
            for _ in 0..4 {
                assert!(get(server, "/api").ends_with("\r\n\r\nhi"));
            }
            let name = "http_upstream_failures_total{reason=\"idle-timeout\"}";
            eventually(name, || metric(server, name).filter(|count| *count == 4));
            assert_eq!(metric(server, "http_upstream_ejections_total"), Some(0));
            drop(running.lock().unwrap().take());
        },
    );
}
