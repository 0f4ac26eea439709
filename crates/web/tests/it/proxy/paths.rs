//! Spellings of paths that other servers answer. Their files must not be sent, such as the source of a script.

use std::fs;
use std::sync::Mutex;

use phalanx_testkit::http::Client;
use phalanx_web::{Access, Rewrite, TryRule};

use crate::common::{Server, on_each_driver};
use crate::proxy::backend::{Backend, passing};

/// Runs `test` with a root that contains `api/index.php`. The server responds with the target that it gets.
fn with_scripts(strip_prefix: bool, protects: bool, test: impl Fn(&Server)) {
    let running = Mutex::new(None);
    on_each_driver(
        |home| {
            let backend = Backend::new(|mut peer, _| {
                while let Some(head) = peer.head() {
                    let target = head.split(' ').nth(1).unwrap();
                    let length = target.len();
                    peer.say(format!(
                        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{target}"
                    ));
                }
            });
            let mut config = passing(backend.address, |proxy| proxy.strip_prefix = strip_prefix);
            fs::create_dir(home.join("api")).unwrap();
            fs::write(home.join("api/index.php"), "<?php secret").unwrap();
            fs::write(home.join("open"), "open").unwrap();
            let host = &mut config.hosts[0];
            host.root = home.into();
            host.rewrites = vec![Rewrite { from: "/old/**".into(), to: "/$rest".into() }];
            if protects {
                host.access = vec![Access {
                    path: "/api/admin/**".into(),
                    allow: vec!["10.0.0.0/8".parse().unwrap()],
                    deny: Vec::new(),
                }];
            }
            *running.lock().unwrap() = Some(backend);
            config
        },
        |server, _| {
            test(server);
            drop(running.lock().unwrap().take());
        },
    );
}

#[test]
fn every_spelling_reaches_the_server() {
    for strip_prefix in [false, true] {
        with_scripts(strip_prefix, false, |server| {
            let mut client = Client::connect(server.address);
            for path in ["/api/index.php", "/%61pi/index.php", "//api/index.php", "/%61%70%69//x"] {
                let response = client.get(path);
                let rest = if path.ends_with('x') { "/x" } else { "/index.php" };
                let whole = if path.starts_with("//") { &path[1..] } else { path };
                let wanted = if strip_prefix { rest } else { whole };
                assert_eq!((response.status, response.text()), (200, wanted), "{path}");
            }
            for (path, status) in [
                ("/./api/index.php", 400),
                ("/%2e/api/index.php", 400),
                ("/x/../api/index.php", 400),
                ("/api%2findex.php", 404),
                ("/%2561pi/index.php", 404),
                // A rewrite whose target the client chooses.
                ("/old/api/index.php", 404),
                ("/old/%61pi/index.php", 404),
                ("/old/open", 200),
                ("/open", 200),
            ] {
                let response = client.get(path);
                assert_eq!(response.status, status, "{path}");
                assert!(!response.text().contains("secret"), "{path}");
            }
        });
    }
}

/// Rules of the host for some paths do not change what other paths may contain.
#[test]
fn ambiguous_paths_pass_unless_a_rule_may_apply() {
    for (protects, wanted) in [(false, 200), (true, 404)] {
        with_scripts(false, protects, |server| {
            let mut client = Client::connect(server.address);
            for path in ["/api/a%2fb", "/api/.git", "/api/a%5cb", "/api/adm%2fin"] {
                let response = client.get(path);
                assert_eq!((response.status, response.text()), (200, path), "{path}");
            }
            for path in
                ["/api/admin/a%2fb", "/api/admin%2fb", "/api/admin/.git", "/api%2f%61dmin/.x"]
            {
                // The last one is not below the prefix.
                let wanted = if path.contains("api%2f") { 404 } else { wanted };
                assert_eq!(client.get(path).status, wanted, "{path}");
            }
        });
    }
}

/// Files below the proxy's prefix are not sent for other paths either, whichever rule leads to them.
#[test]
fn no_rule_sends_files_of_the_server() {
    let running = Mutex::new(None);
    on_each_driver(
        |home| {
            let backend = Backend::new(|_, _| ());
            let mut config = passing(backend.address, |proxy| proxy.prefix = "/api".into());
            for folder in ["api", "folder/api"] {
                fs::create_dir_all(home.join(folder)).unwrap();
                fs::write(home.join(folder).join("index.php"), "<?php secret").unwrap();
            }
            let mut page = config.hosts[0].proxies[0].clone();
            page.prefix = "/page.html".into();
            fs::write(home.join("page.html"), "secret page").unwrap();
            let host = &mut config.hosts[0];
            host.root = home.into();
            host.proxies.push(page);
            let mut folder = host.proxies[0].clone();
            folder.prefix = "/folder/api".into();
            host.proxies.push(folder);
            host.index = vec!["index.html".into(), "api/index.php".into()];
            host.try_files =
                vec![TryRule { path: "/try/**".into(), files: vec!["/api/index.php".into()] }];
            host.clean_urls = true;
            host.fallback = Some("/api/index.php".into());
            *running.lock().unwrap() = Some(backend);
            config
        },
        |server, _| {
            let mut client = Client::connect(server.address);
            for path in ["/folder/", "/try/x", "/page", "/none"] {
                let response = client.get_with(path, "Accept: text/html\r\n");
                assert_eq!(response.status, 404, "{path}");
                assert!(!response.text().contains("secret"), "{path}");
            }
            drop(running.lock().unwrap().take());
        },
    );
}
