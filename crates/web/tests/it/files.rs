//! Files that change in place, other methods than GET, and paths that no file has.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use phalanx_testkit::eventually;
use phalanx_testkit::http::Client;
use phalanx_web::{Access, Config, Redirect, RedirectStatus};

use crate::common::{metric, on_each_driver};

const HOUR: Duration = Duration::from_secs(3600);

/// Creates the directory `root` in `home` with these files.
fn site(home: &Path, files: &[(&str, &[u8])]) -> Config {
    let root = home.join("root");
    fs::create_dir(&root).unwrap();
    for (name, content) in files {
        fs::write(root.join(name), content).unwrap();
    }
    let mut config = Config::with_root(&root);
    config.runtime.admin = Some((Ipv4Addr::LOCALHOST, 0).into());
    config
}

/// Its new content is sent, although the uncompressed file has not changed and its next check is due in an hour.
#[test]
fn a_precompressed_file_is_overwritten() {
    let configure = |home: &Path| {
        let files = [("app.js", &[b' '; 100_000][..]), ("app.js.br", &[1; 70_000])];
        let mut config = site(home, &files);
        (config.hosts[0].precompressed, config.timeouts.revalidate) = (true, HOUR);
        config
    };
    on_each_driver(configure, |server, home| {
        let mut client = Client::connect(server.address);
        let mut ask = |byte, length| {
            let response = client.get_with("/app.js", "Accept-Encoding: br\r\n");
            assert_eq!((response.status, response.first("Content-Encoding")), (200, Some("br")));
            assert!(response.body == vec![byte; length], "{} bytes", response.body.len());
            response.first("ETag").unwrap().to_owned()
        };
        let tags = [ask(1, 70_000), ask(1, 70_000)];
        fs::write(home.join("root/app.js.br"), [2; 80_000]).unwrap();
        assert!(!tags.contains(&ask(2, 80_000)));
    });
}

/// Writes a file as a reproducible build does: another file takes the name, with a given modification time.
fn publish(root: &Path, name: &str, content: &[u8], modified: Duration) {
    let new = root.join("new");
    fs::write(&new, content).unwrap();
    let file = File::options().write(true).open(&new).unwrap();
    file.set_modified(UNIX_EPOCH + modified).unwrap();
    fs::rename(new, root.join(name)).unwrap();
}

/// Files that are cached in memory, files that are too large for that, and precompressed ones.
#[test]
fn contents_of_equal_length_and_time_have_different_tags() {
    let built = Duration::from_secs(315_532_800);
    let names = ["small", "large", "small.gz", "large.gz"];
    let content =
        |byte: u8, name: &str| vec![byte; if name.starts_with('s') { 1000 } else { 70_000 }];
    let configure = |home: &Path| {
        let mut config = site(home, &[]);
        (config.hosts[0].precompressed, config.timeouts.revalidate) = (true, Duration::ZERO);
        for name in names {
            publish(&home.join("root"), name, &content(1, name), built);
        }
        config
    };
    on_each_driver(configure, |server, home| {
        let mut client = Client::connect(server.address);
        for name in names {
            let (path, accept) = match name.strip_suffix(".gz") {
                Some(path) => (format!("/{path}"), "Accept-Encoding: gzip\r\n"),
                None => (format!("/{name}"), ""),
            };
            let mut ask = |byte, fields: &str| {
                let response = client.get_with(&path, &format!("{accept}{fields}"));
                assert_eq!(response.status, 200, "{name} {fields}");
                assert!(response.body == content(byte, name), "{name} {fields}");
                response.first("ETag").unwrap().to_owned()
            };
            let old = ask(1, "");
            publish(&home.join("root"), name, &content(2, name), built);
            assert_ne!(ask(2, ""), old, "{name}");
            ask(2, &format!("If-None-Match: {old}\r\n"));
            ask(2, &format!("If-Range: {old}\r\nRange: bytes=1-\r\n"));
        }
    });
}

/// All servers behind a load balancer have the same content, but may have stored it at different times.
#[test]
fn the_tag_of_a_small_file_does_not_depend_on_its_time() {
    let configure = |home: &Path| {
        let mut config = site(home, &[]);
        config.timeouts.revalidate = Duration::ZERO;
        config
    };
    on_each_driver(configure, |server, home| {
        let mut client = Client::connect(server.address);
        let mut tags = [1, 2].map(|second| {
            publish(&home.join("root"), "a", b"the same", Duration::from_secs(second));
            client.get("/a").first("ETag").unwrap().to_owned()
        });
        assert_eq!(tags[0], tags[1]);
        // A change in place that keeps the length.
        fs::write(home.join("root/a"), b"another!").unwrap();
        tags[1] = client.get("/a").first("ETag").unwrap().to_owned();
        assert!(!tags[1].contains(&tags[0]), "{tags:?}");
    });
}

/// Lines of digits, half of whose bits are random.
fn digits(lines: u64) -> Vec<u8> {
    let line = |n: u64| format!("{:016x}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (0..lines).map(line).collect::<String>().into_bytes()
}

#[test]
fn no_open_file_is_needed_for_compression() {
    let configure = |home: &Path| {
        let mut config = site(home, &[("a.txt", &digits(1000))]);
        (config.hosts[0].compress, config.open_files) = (true, 0);
        config
    };
    on_each_driver(configure, |server, _| {
        let mut client = Client::connect(server.address);
        eventually("a compressed file", || {
            let response = client.get_with("/a.txt", "Accept-Encoding: gzip\r\n");
            (response.first("Content-Encoding") == Some("gzip")).then_some(())
        });
    });
}

#[test]
fn results_that_the_cache_cannot_hold_are_counted() {
    let configure = |home: &Path| {
        let mut config = site(home, &[("a.txt", &digits(20_000))]);
        (config.hosts[0].compress, config.cache_bytes) = (true, 64 << 10);
        config
    };
    on_each_driver(configure, |server, _| {
        let mut client = Client::connect(server.address);
        let name = "phalanx_web_compressions_rejected_total";
        eventually(name, || {
            let response = client.get_with("/a.txt", "Accept-Encoding: gzip\r\n");
            assert_eq!((response.status, response.first("Content-Encoding")), (200, None));
            metric(server, name).filter(|count| *count == 1)
        });
    });
}

/// A path with a slash behind a file's name gets 404, with and without names of index files.
#[test]
fn a_file_is_no_directory() {
    for index in [vec![], vec!["index.html".to_owned()]] {
        let configure = |home: &Path| {
            let mut config = site(home, &[("page.html", b"page")]);
            config.hosts[0].index.clone_from(&index);
            config
        };
        on_each_driver(configure, |server, _| {
            let mut client = Client::connect(server.address);
            assert_eq!(client.get("/page.html").status, 200);
            assert_eq!(client.get("/page.html/").status, 404, "{index:?}");
            assert_eq!(client.get("/").status, 404, "{index:?}");
        });
    }
}

#[test]
fn redirects_apply_to_all_methods() {
    let configure = |home: &Path| {
        let mut config = site(home, &[("a", b"a")]);
        let rule = |from: &str, to: &str| Redirect {
            from: from.into(),
            to: to.into(),
            status: RedirectStatus::Permanent,
        };
        let host = &mut config.hosts[0];
        host.redirects =
            vec![rule("/old/**", "https://new.example/$rest"), rule("/in/**", "/out/$rest")];
        let allow = vec!["10.0.0.0/8".parse().unwrap()];
        host.access = vec![Access { path: "/in/**".into(), allow, deny: vec![] }];
        config
    };
    on_each_driver(configure, |server, _| {
        let mut client = Client::connect(server.address);
        let mut ask = |method: &str, path: &str| {
            let head =
                format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
            client.send(head);
            let response = client.response();
            (response.status, response.first("Location").map(str::to_owned))
        };
        for method in ["POST", "PUT", "DELETE", "PATCH", "PROPFIND", "GET"] {
            let target = Some("https://new.example/b?c".to_owned());
            assert_eq!(ask(method, "/old/b?c"), (308, target), "{method}");
        }
        assert_eq!(ask("TRACE", "/old/b"), (405, None));
        assert_eq!(ask("OPTIONS", "/old/b"), (204, None));
        assert_eq!(ask("POST", "/in/b"), (403, None), "no other client learns the target");
        assert_eq!(ask("POST", "/a"), (405, None));
        assert_eq!(ask("PROPFIND", "/a"), (501, None));
    });
}

/// RFC 9110 §7.4: a resource with `https` requires TLS, which a trusted proxy may have terminated.
#[test]
fn targets_with_https_require_tls() {
    for (trusted, wanted) in [(false, 421), (true, 200)] {
        let configure = |home: &Path| {
            let mut config = site(home, &[("a", b"a")]);
            if trusted {
                config.real_ip_from = vec!["127.0.0.0/8".parse().unwrap()];
            }
            config
        };
        on_each_driver(configure, |server, _| {
            let mut client = Client::connect(server.address);
            for (target, wanted) in [("http://h/a", 200), ("https://h/a", wanted), ("/a", 200)] {
                client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
                assert_eq!(client.response().status, wanted, "{target} {trusted}");
            }
        });
    }
}
