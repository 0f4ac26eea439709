//! Content codings (RFC 9110 §12.5.3): precompressed files, and compression in the cache.

use std::fs;
use std::io::Read;

use phalanx_testkit::bytes::{assert_same, random_bytes};
use phalanx_testkit::eventually;
use phalanx_testkit::http::{Client, Response};
use phalanx_testkit::process::curl_output;
use phalanx_testkit::site::{Site, age};

use crate::on_each_driver;
use crate::server::Server;

on_each_driver!(
    precompressed_files,
    precompressed_files_are_added_and_removed,
    compressed_once,
    clients_that_reject_identity_wait,
    incompressible_files,
    identity_refused,
    curl_reads_them_all,
);

fn text(length: usize) -> Vec<u8> {
    (0..)
        .flat_map(|n: u32| format!("line {} of many\n", n * n % 977).into_bytes())
        .take(length)
        .collect()
}

fn ask(client: &mut Client, path: &str, accept: &str) -> Response {
    client.get_with(path, &format!("Accept-Encoding: {accept}\r\n"))
}

fn coding(response: &Response) -> &str {
    response.field("Content-Encoding").unwrap_or("none")
}

fn precompressed_files(driver: &'static str) {
    let site = Site::new();
    // Not the result of compression, so that it is clear which file is sent.
    let contents =
        [("", "as it is"), (".br", "the brotli"), (".zst", "the zstd"), (".gz", "the gzip")];
    for (suffix, content) in contents {
        site.file(format!("a.js{suffix}"), content);
    }
    let large = random_bytes(7, 300_000);
    site.file("large.bin", "short");
    site.file("large.bin.gz", &large);
    site.file("alone.js", "alone");
    site.file("old.js", "new");
    age(&site.file("old.js.gz", "of an older state"), 7200);
    let server = Server::start_with(driver, &site.root(), &["--precompressed"]);
    let mut client = Client::connect(server.address);
    // (Accept-Encoding, coding, content)
    let table = [
        ("gzip, deflate, br, zstd", "br", "the brotli"),
        ("gzip, zstd", "zstd", "the zstd"),
        ("gzip", "gzip", "the gzip"),
        ("x-gzip", "gzip", "the gzip"),
        ("br;q=0.5, gzip;q=0.8", "gzip", "the gzip"),
        ("br;q=0, *", "zstd", "the zstd"),
        ("deflate", "none", "as it is"),
        ("", "none", "as it is"),
        ("identity;q=0, gzip", "gzip", "the gzip"),
    ];
    let mut tags = std::collections::HashSet::new();
    for (accept, expected, content) in table {
        // Twice: from the disk, and from the cache.
        for _ in 0..2 {
            let response = ask(&mut client, "/a.js", accept);
            assert_eq!((response.status, coding(&response)), (200, expected), "{accept}");
            assert_eq!(response.body, content.as_bytes(), "{accept}");
            assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
            assert_eq!(response.field("Content-Type"), Some("text/javascript; charset=utf-8"));
            let etag = response.field("ETag").unwrap().to_owned();
            assert!(!etag.starts_with("W/"), "{etag}");
            let lines = format!("Accept-Encoding: {accept}\r\nIf-None-Match: {etag}\r\n");
            let same = client.get_with("/a.js", &lines);
            assert_eq!((same.status, same.field("ETag")), (304, Some(&*etag)), "{accept}");
            assert_eq!(same.field("Vary"), Some("Accept-Encoding"), "15.4.5");
            let head = client.head_with("/a.js", &format!("Accept-Encoding: {accept}\r\n"));
            assert_eq!(head.fields_except_date(), response.fields_except_date(), "9.3.2");
            tags.insert(etag);
        }
    }
    assert_eq!(tags.len(), 4, "each coding has its own: {tags:?}");
    let other = tags.iter().find(|tag| tag.ends_with("-gzip\"")).unwrap();
    let lines = format!("Accept-Encoding: br\r\nIf-None-Match: {other}\r\n");
    assert_eq!(client.get_with("/a.js", &lines).status, 200, "the tag of another coding");
    assert_eq!(ask(&mut client, "/a.js", "identity;q=0, deflate").status, 406, "12.5.3");
    assert_eq!(ask(&mut client, "/a.js", "*;q=0").field("Vary"), Some("Accept-Encoding"));
    // A range applies to the coded content.
    let part = client.get_with("/a.js", "Accept-Encoding: br\r\nRange: bytes=4-9\r\n");
    assert_eq!((part.status, coding(&part), &part.body[..]), (206, "br", &b"brotli"[..]));
    let parts = client.get_with("/a.js", "Accept-Encoding: br\r\nRange: bytes=0-2,8-9\r\n");
    assert_eq!((parts.status, coding(&parts)), (206, "br"));
    for _ in 0..2 {
        let response = ask(&mut client, "/large.bin", "gzip");
        assert_eq!(coding(&response), "gzip");
        assert_same(&response.body, &large);
    }
    for path in ["/alone.js", "/old.js"] {
        let response = ask(&mut client, path, "gzip, br");
        assert_eq!((coding(&response), response.field("Vary")), ("none", None), "{path}");
    }
}

fn precompressed_files_are_added_and_removed(driver: &'static str) {
    let site = Site::new();
    site.file("a.css", "as it is");
    let server = Server::start_with(driver, &site.root(), &["--precompressed"]);
    let mut client = Client::connect(server.address);
    assert_eq!(coding(&ask(&mut client, "/a.css", "br")), "none");
    let mut becomes = |expected: &[u8]| {
        eventually("the new precompressed file", || {
            (ask(&mut client, "/a.css", "br").body == expected).then_some(())
        });
    };
    let sibling = site.file("a.css.br", "the brotli");
    becomes(b"the brotli");
    site.file("a.css.br", "another, and longer");
    becomes(b"another, and longer");
    fs::remove_file(sibling).unwrap();
    becomes(b"as it is");
}

/// Repeats the request until the response is coded; until then it is uncoded.
fn until_encoded(client: &mut Client, path: &str, accept: &str, own: &[u8]) -> Response {
    eventually("it is compressed", || {
        let response = ask(client, path, accept);
        assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
        if coding(&response) == "none" {
            assert_same(&response.body, own);
            return None;
        }
        Some(response)
    })
}

fn compressed_once(driver: &'static str) {
    let site = Site::new();
    let (small, large) = (text(20_000), text(600_000));
    site.file("small.html", &small);
    site.file("large.json", &large);
    site.file("tiny.html", text(500));
    site.file("picture.png", text(20_000));
    let server = Server::start_with(driver, &site.root(), &["--compress"]);
    let mut client = Client::connect(server.address);
    for (path, own) in [("/small.html", &small), ("/large.json", &large)] {
        let plain = client.get(path);
        assert_same(&plain.body, own);
        for name in ["gzip", "br", "zstd"] {
            let encoded = until_encoded(&mut client, path, name, own);
            assert_eq!(coding(&encoded), name);
            assert!(encoded.body.len() < own.len() / 3, "{name}: {}", encoded.body.len());
            let reread = ask(&mut client, path, name);
            assert_eq!(reread.fields_except_date(), encoded.fields_except_date());
            assert_same(&reread.body, &encoded.body);
            assert_ne!(plain.field("ETag"), encoded.field("ETag"));
            if name == "gzip" {
                let mut read = Vec::new();
                flate2::read::GzDecoder::new(&encoded.body[..]).read_to_end(&mut read).unwrap();
                assert_same(&read, own);
            }
        }
        let best = ask(&mut client, path, "gzip, deflate, br, zstd");
        assert_eq!(coding(&best), "br");
    }
    for path in ["/tiny.html", "/picture.png"] {
        let response = ask(&mut client, path, "gzip");
        assert_eq!((coding(&response), response.field("Vary")), ("none", None), "{path}");
    }
    // A changed file is compressed again.
    let other = [&text(9000)[..], b"the end"].concat();
    site.file("small.html", &other);
    eventually("the new state in brotli", || {
        let response = ask(&mut client, "/small.html", "gzip");
        let mut read = Vec::new();
        flate2::read::GzDecoder::new(&response.body[..]).read_to_end(&mut read).ok()?;
        (read == other).then_some(())
    });
}

fn clients_that_reject_identity_wait(driver: &'static str) {
    let site = Site::new();
    let content = text(300_000);
    site.file("a.txt", &content);
    site.file("noise.txt", random_bytes(3, 30_000));
    let server = Server::start_with(driver, &site.root(), &["--compress"]);
    let mut client = Client::connect(server.address);
    let first = ask(&mut client, "/a.txt", "gzip, identity;q=0");
    assert_eq!((first.status, coding(&first)), (200, "gzip"));
    assert_eq!(ask(&mut client, "/a.txt", "identity;q=0").status, 406);
    assert_eq!(ask(&mut client, "/noise.txt", "br, identity;q=0").status, 406, "not smaller");
}

/// A file without codings is rejected if `identity` is excluded (RFC 9110 §12.5.3).
fn identity_refused(driver: &'static str) {
    let site = Site::new();
    site.file("a.txt", "text");
    site.file("large.bin", random_bytes(1, 300_000));
    for args in [&[][..], &["--compress"]] {
        let server = Server::start_with(driver, &site.root(), args);
        let mut client = Client::connect(server.address);
        for path in ["/a.txt", "/large.bin"] {
            for accept in ["identity;q=0", "*;q=0", "gzip, *;q=0", "br, identity;q=0.000"] {
                let response = ask(&mut client, path, accept);
                assert_eq!(response.status, 406, "{path} {accept}");
                assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
            }
            for accept in ["identity;q=0.001", "*;q=0, identity", "gzip;q=0", "gzip"] {
                assert_eq!(ask(&mut client, path, accept).status, 200, "{path} {accept}");
            }
            let lines = "Accept-Encoding: gzip\r\nAccept-Encoding: identity;q=0\r\n";
            assert_eq!(client.get_with(path, lines).status, 406);
        }
        assert_eq!(ask(&mut client, "/none", "identity;q=0").status, 404, "an error has no coding");
    }
}

fn incompressible_files(driver: &'static str) {
    let site = Site::new();
    let content = random_bytes(5, 30_000);
    site.file("noise.txt", &content);
    let server = Server::start_with(driver, &site.root(), &["--compress"]);
    let mut client = Client::connect(server.address);
    for _ in 0..20 {
        let response = ask(&mut client, "/noise.txt", "gzip, br");
        assert_eq!(coding(&response), "none");
        assert_same(&response.body, &content);
    }
}

fn curl_reads_them_all(driver: &'static str) {
    let site = Site::new();
    let content = text(50_000);
    site.file("a.html", &content);
    let server = Server::start_with(driver, &site.root(), &["--compress"]);
    let url = format!("http://{}/a.html", server.address);
    let output = site.outside().join("got");
    for name in ["gzip", "br", "zstd"] {
        let accept = format!("Accept-Encoding: {name}");
        let output = output.to_str().unwrap();
        let sent = eventually("it is compressed", || {
            let arguments = ["--compressed", "-H", &accept, "--output", output, "--write-out"];
            let mut arguments = arguments.to_vec();
            arguments.extend(["%header{content-encoding} %{size_download}", &url]);
            let body = curl_output(&arguments);
            assert_same(&fs::read(output).unwrap(), &content);
            body.strip_prefix(&format!("{name} ")).map(str::to_owned)
        });
        assert!(sent.parse::<usize>().unwrap() < content.len() / 2, "{name}: {sent}");
    }
}
