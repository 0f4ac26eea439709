//! Heads of requests and responses, and connections that are used again.

use std::sync::Mutex;

use phalanx_testkit::http::Client;
use phalanx_web::Auth;

use crate::common::{all, get, on_each_driver};
use crate::proxy::backend::{Backend, passing};
use crate::proxy::with;

#[test]
fn a_connection_is_used_again() {
    let backend = || {
        Backend::new(|mut peer, number| {
            while let Some(head) = peer.head() {
                assert!(
                    head.starts_with("GET /api/a?b=c HTTP/1.1\r\nHost: localhost\r\n"),
                    "{head}"
                );
                for line in [
                    "X-Forwarded-For: 127.0.0.1\r\n",
                    "X-Forwarded-Proto: http\r\n",
                    "Forwarded: for=127.0.0.1;proto=http;host=\"localhost\"\r\n",
                ] {
                    assert!(head.contains(line), "{head}");
                }
                assert!(!head.contains("1.2.3.4"), "{head}");
                let number = format!("connection {number}");
                peer.say(format!(
                    "HTTP/1.1 200 Fine\r\nServer: own\r\nConnection: x-own\r\nX-Own: 1\r\nETag: \"e\"\r\n\
                     Alt-Svc: h3=\":9\"\r\nContent-Length: {}\r\n\r\n{number}",
                    number.len()
                ));
            }
        })
    };
    with(
        backend,
        |_| (),
        |server, backend| {
            let mut client = Client::connect(server.address);
            for _ in 0..5 {
                let lines = "X-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\n";
                let response = client.get_with("/api/a?b=c", lines);
                assert_eq!((response.status, response.text()), (200, "connection 0"));
                assert_eq!(response.field("ETag"), Some("\"e\""));
                assert_eq!(response.field("Server"), Some("phalanx"));
                assert_eq!(response.field("Alt-Svc"), None);
                assert!(
                    response.field("X-Own").is_none() && response.field("Connection").is_none()
                );
            }
            // Pipelined, with a file's response in between.
            let asked = "GET /api/a?b=c HTTP/1.1\r\nHost: localhost\r\n\r\n";
            client
                .send([asked, "GET /missing HTTP/1.1\r\nHost: localhost\r\n\r\n", asked].concat());
            let statuses = [(); 3].map(|()| client.response().status);
            assert_eq!(statuses, [200, 404, 200]);
            assert_eq!(backend.accepted(), 1);
        },
    );
}

#[test]
fn responses_of_every_framing() {
    let backend = || {
        Backend::new(|mut peer, _| {
            while let Some(head) = peer.head() {
                let path = head.split(' ').nth(1).unwrap();
                let many = "HTTP/1.1 102 Processing\r\n\r\n".repeat(50)
                    + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
                // More than a body of a request may have, together.
                let extended = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned()
                    + &"1;name=value\r\nx\r\n".repeat(300)
                    + "0\r\n\r\n";
                peer.say(match path {
                    "/api/many" => &many,
                    "/api/extended" => &extended,
                    "/api/empty" => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                    "/api/none" => "HTTP/1.1 204 No Content\r\n\r\n",
                    "/api/same" => "HTTP/1.1 304 Not Modified\r\nETag: \"e\"\r\n\r\n",
                    "/api/head" => "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n",
                    "/api/odd" => "HTTP/1.1 418 I'm a teapot\r\nContent-Length: 2\r\n\r\nhi",
                    "/api/interim" => {
                        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 201 Created\r\n\
                         Content-Length: 2\r\n\r\nhi"
                    }
                    "/api/chunks" => {
                        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhi\r\n3\r\n th\r\n\
                         0\r\nX-Trailer: 1\r\n\r\n"
                    }
                    "/api/close" => "HTTP/1.0 200 OK\r\n\r\nhi th",
                    path => panic!("{path}"),
                });
                if path == "/api/close" {
                    return;
                }
            }
        })
    };
    with(
        backend,
        |_| (),
        |server, _| {
            let mut client = Client::connect(server.address);
            let mut ask = |method: &str, path: &str| {
                client.try_send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
                client.try_response(method == "HEAD").unwrap()
            };
            let response = ask("GET", "/api/empty");
            assert_eq!((response.status, response.first("Content-Length")), (200, Some("0")));
            let response = ask("GET", "/api/none");
            assert_eq!((response.status, response.first("Content-Length")), (204, None));
            let response = ask("GET", "/api/same");
            assert_eq!((response.status, response.first("ETag")), (304, Some("\"e\"")));
            let response = ask("HEAD", "/api/head");
            assert_eq!((response.status, response.first("Content-Length")), (200, Some("99")));
            let response = ask("GET", "/api/odd");
            assert_eq!((response.status, response.text()), (418, "hi"));
            let response = ask("GET", "/api/interim");
            assert_eq!(
                (response.status, response.text(), response.first("Link")),
                (201, "hi", None)
            );
            let response = ask("GET", "/api/many");
            assert_eq!((response.status, response.text()), (200, "hi"));
            let response = ask("GET", "/api/extended");
            assert_eq!((response.status, response.text()), (200, &*"x".repeat(300)));
            for path in ["/api/chunks", "/api/close"] {
                let response = ask("GET", path);
                assert_eq!((response.status, response.text()), (200, "hi th"), "{path}");
                assert_eq!(response.first("Transfer-Encoding"), Some("chunked"), "{path}");
            }
            // A client with HTTP/1.0 does not understand chunks.
            for path in ["/api/chunks", "/api/close"] {
                let text =
                    all(server, &format!("GET {path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
                assert!(
                    text.contains("Connection: close\r\n") && !text.contains("chunked"),
                    "{text}"
                );
                assert!(text.ends_with("\r\n\r\nhi th"), "{text}");
            }
        },
    );
}

/// RFC 9112 §5.1 and §5.2, and white space behind the sizes of chunks.
#[test]
fn heads_of_old_servers_are_repaired() {
    let backend = || {
        Backend::new(|mut peer, _| {
            while peer.head().is_some() {
                peer.say(
                    "HTTP/1.1 200 OK\r\nX-Folded: a\r\n  b\r\nX-Spaced : c\r\nTransfer-Encoding: chunked\r\n\r\n\
                     2  \r\nhi\r\n0     \r\n\r\n",
                );
            }
        })
    };
    with(
        backend,
        |_| (),
        |server, backend| {
            let mut client = Client::connect(server.address);
            for _ in 0..4 {
                client.send("GET /api HTTP/1.1\r\nHost: a\r\n\r\n");
                let response = client.try_response(false).unwrap();
                assert_eq!((response.status, response.text()), (200, "hi"));
                assert_eq!(response.first("X-Folded"), Some("a    b"));
                assert_eq!(response.first("X-Spaced"), Some("c"));
            }
            assert_eq!(backend.accepted(), 1);
        },
    );
}

/// RFC 9110 §15.5.22
#[test]
fn a_required_protocol_is_named() {
    let backend = || {
        Backend::new(|mut peer, _| {
            while peer.head().is_some() {
                peer.say(
                    "HTTP/1.1 426 Upgrade Required\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                     Content-Length: 2\r\n\r\nno",
                );
            }
        })
    };
    with(
        backend,
        |_| (),
        |server, _| {
            let mut client = Client::connect(server.address);
            for _ in 0..2 {
                client.send("GET /api HTTP/1.1\r\nHost: a\r\n\r\n");
                let response = client.try_response(false).unwrap();
                assert_eq!((response.status, response.text()), (426, "no"));
                assert_eq!(response.first("Upgrade"), Some("websocket"));
                assert_eq!(response.first("Connection"), Some("upgrade"));
            }
        },
    );
}

/// RFC 9110 §7.6.2
#[test]
fn a_request_for_this_server() {
    let backend = || {
        Backend::new(|mut peer, _| {
            while let Some(head) = peer.head() {
                assert!(head.contains("\r\nMax-Forwards: 0\r\n"), "{head}");
                peer.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
        })
    };
    with(
        backend,
        |_| (),
        |server, backend| {
            let mut client = Client::connect(server.address);
            let mut ask = |hops| {
                let head =
                    format!("OPTIONS /api HTTP/1.1\r\nHost: a\r\nMax-Forwards: {hops}\r\n\r\n");
                client.send(head);
                client.response().status
            };
            assert_eq!((ask(0), backend.accepted()), (204, 0));
            assert_eq!((ask(1), backend.accepted()), (200, 1));
        },
    );
}

#[test]
fn the_prefix_and_the_host_may_be_replaced() {
    let backend = || {
        Backend::new(|mut peer, _| {
            while let Some(head) = peer.head() {
                let address = peer.stream.local_addr().unwrap();
                let start = format!("GET /x/y?z HTTP/1.1\r\nHost: {address}\r\n");
                assert!(head.starts_with(&start), "{head}");
                assert!(head.contains("X-Forwarded-Host: localhost\r\n"), "{head}");
                peer.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
        })
    };
    let change = |proxy: &mut phalanx_web::Proxy| {
        (proxy.strip_prefix, proxy.preserve_host) = (true, false);
    };
    with(backend, change, |server, _| {
        assert!(get(server, "/api/x/y?z").starts_with("HTTP/1.1 200 "));
        // Not below the prefix, or with segments that would leave it.
        assert!(get(server, "/apix").starts_with("HTTP/1.1 404 "));
        for path in ["/api/../x", "/api/%2e%2e/x", "/api/x/..%2f..%2fy"] {
            assert!(get(server, path).starts_with("HTTP/1.1 400 "), "{path}");
        }
    });
}

/// A browser sends a preflight request without a password. Other requests for these paths need one.
#[test]
fn a_preflight_request_needs_no_password() {
    let backend = || {
        Backend::new(|mut peer, _| {
            while let Some(head) = peer.head() {
                assert!(head.starts_with("OPTIONS /api"), "{head}");
                peer.say("HTTP/1.1 204 No Content\r\n\r\n");
            }
        })
    };
    let running = Mutex::new(None);
    let configure = |home: &std::path::Path| {
        let backend = backend();
        let mut config = passing(backend.address, |_| ());
        let users = home.join("users");
        let hash = "$2y$04$Tln9qjnheNhKhSrqEN6qAOdLkHDRWIeSQUROpBDi84XFI8Zi7hgNG";
        std::fs::write(&users, format!("adam:{hash}\n")).unwrap();
        config.hosts[0].auth = vec![Auth { path: "/**".into(), realm: "r".into(), users }];
        *running.lock().unwrap() = Some(backend);
        config
    };
    on_each_driver(configure, |server, _| {
        let ask = |method: &str, fields: &str| {
            let line = format!("{method} /api HTTP/1.1\r\nHost: a\r\nConnection: close\r\n");
            all(server, &format!("{line}{fields}\r\n"))
        };
        let preflight = "Origin: http://b\r\nAccess-Control-Request-Method: PUT\r\n";
        assert!(ask("OPTIONS", preflight).starts_with("HTTP/1.1 204 "));
        assert!(ask("OPTIONS", "Origin: http://b\r\n").starts_with("HTTP/1.1 401 "));
        assert!(ask("GET", preflight).starts_with("HTTP/1.1 401 "));
        drop(running.lock().unwrap().take());
    });
}

/// The requests come from a proxy that terminates TLS.
#[test]
fn a_trusted_proxy_names_the_scheme() {
    for trusted in ["127.0.0.0/8", "10.0.0.0/8"] {
        let running = Mutex::new(None);
        let start = |_: &std::path::Path| {
            let scheme = if trusted == "127.0.0.0/8" { "https" } else { "http" };
            let backend = Backend::new(move |mut peer, _| {
                while let Some(head) = peer.head() {
                    assert!(head.contains(&format!("X-Forwarded-Proto: {scheme}\r\n")), "{head}");
                    assert!(head.contains(&format!(";proto={scheme};")), "{head}");
                    peer.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                }
            });
            let mut config = passing(backend.address, |_| ());
            config.real_ip_from = vec![trusted.parse().unwrap()];
            *running.lock().unwrap() = Some(backend);
            config
        };
        on_each_driver(start, |server, _| {
            let _backend = running.lock().unwrap().take().expect("it was started");
            let mut client = Client::connect(server.address);
            let lines = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http, https\r\n";
            assert_eq!(client.get_with("/api", lines).status, 200);
        });
    }
}

/// A proxy that does not set `X-Forwarded-Host` passes on what its client has sent, so it names no host by default.
#[test]
fn a_trusted_proxy_names_the_host_if_configured() {
    for names_host in [false, true] {
        let running = Mutex::new(None);
        let start = |_: &std::path::Path| {
            let backend = Backend::new(move |mut peer, _| {
                while let Some(head) = peer.head() {
                    assert_eq!(head.contains("a.example"), names_host, "{head}");
                    assert_eq!(head.contains("X-Forwarded-Port: 8443"), names_host, "{head}");
                    assert!(head.contains("X-Forwarded-For: 192.0.2.1\r\n"), "{head}");
                    peer.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                }
            });
            let mut config = passing(backend.address, |_| ());
            config.real_ip_from = vec!["127.0.0.0/8".parse().unwrap()];
            config.real_ip_host = names_host;
            *running.lock().unwrap() = Some(backend);
            config
        };
        on_each_driver(start, |server, _| {
            let _backend = running.lock().unwrap().take().expect("it was started");
            let mut client = Client::connect(server.address);
            let lines = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: a.example\r\n\
                         X-Forwarded-Port: 8443\r\n";
            assert_eq!(client.get_with("/api", lines).status, 200);
        });
    }
}
