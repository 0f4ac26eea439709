//! A tree of files, fetched with curl and compared byte for byte.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use phalanx_testkit::bytes::{assert_same, random_bytes};
use phalanx_testkit::http::Client;
use phalanx_testkit::process::curl_output;
use phalanx_testkit::site::Site;

use crate::on_each_driver;
use crate::server::Server;

on_each_driver!(a_whole_tree, types, directories, head_is_get_without_the_body);

/// Sizes at and around every threshold of the server: empty, one byte, copied behind the head (16 KiB), cached
/// whole (64 KiB), one block (128 KiB), two blocks.
const SIZES: &[usize] = &[
    0,
    1,
    100,
    4095,
    16 * 1024,
    16 * 1024 + 1,
    64 * 1024,
    64 * 1024 + 1,
    128 * 1024 - 1,
    128 * 1024,
    128 * 1024 + 1,
    256 * 1024,
    256 * 1024 + 1,
    1_000_000,
];

/// Names that need escaping, encoded or not.
const NAMES: &[&str] = &[
    "with space.html",
    "größe.txt",
    "日本語.css",
    "100%.js",
    "a+b.png",
    "what?.pdf",
    "tag#1.svg",
    "semi;colon=x.woff2",
    "quote\"d'.txt",
    "a..b",
    "trailing.",
    "%41.txt",
    "~user",
    "[brackets]{braces}|^`.txt",
];

/// About three hundred files.
fn tree(site: &Site) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for (number, kind) in ["html", "css", "js", "png", "pdf", "svg", "woff2"].iter().enumerate() {
        for (size, length) in SIZES.iter().enumerate() {
            let path = format!("d{number}/deeper/{length}.{kind}");
            site.file(&path, random_bytes((number * 100 + size) as u64, *length));
            paths.push(path.into());
        }
        for small in 0..25 {
            let path = format!("many/{kind}/{small}.{kind}");
            site.file(&path, random_bytes((number * 1000 + small) as u64, small * 37));
            paths.push(path.into());
        }
    }
    for (number, name) in NAMES.iter().enumerate() {
        let path = PathBuf::from(format!("names/{name}"));
        site.file(&path, random_bytes(number as u64 + 77, 300 + number));
        paths.push(path);
    }
    site.file("big.bin", random_bytes(50, 50 << 20));
    paths.push("big.bin".into());
    paths
}

/// Encodes every character except letters and digits, as overcautious clients do.
fn encoded(path: &std::path::Path) -> String {
    let mut url = String::new();
    for byte in path.to_str().unwrap().bytes() {
        match byte {
            b'/' | b'.' => url.push(byte as char),
            _ if byte.is_ascii_alphanumeric() => url.push(byte as char),
            _ => write!(url, "%{byte:02X}").unwrap(),
        }
    }
    url
}

fn a_whole_tree(driver: &'static str) {
    let site = Site::new();
    let paths = tree(&site);
    assert!(paths.len() > 250);
    let server = Server::start(driver, &site.root());
    let fetched = site.outside().join("fetched");
    let mut list = String::new();
    for (number, path) in paths.iter().enumerate() {
        writeln!(list, "url = \"http://{}/{}\"", server.address, encoded(path)).unwrap();
        writeln!(list, "output = \"{}/{number}\"", fetched.display()).unwrap();
        list.push_str("write-out = \"%{response_code} %{num_connects} %{errormsg}\\n\"\nnext\n");
    }
    let config = site.outside().join("curl.config");
    fs::write(&config, list.trim_end_matches("next\n")).unwrap();
    // Twice: from the disk, then from the cache.
    for round in ["disk", "cache"] {
        fs::create_dir(&fetched).unwrap();
        let report = curl_output(&["--config", config.to_str().unwrap()]);
        let connections = report.lines().enumerate().map(|(number, line)| {
            let (code, connections) = line.trim().split_once(' ').unwrap();
            assert_eq!(code, "200", "{}", paths[number].display());
            connections.parse::<u32>().unwrap()
        });
        assert_eq!(connections.sum::<u32>(), 1, "one connection carries them all ({round})");
        for (number, path) in paths.iter().enumerate() {
            // curl writes no file for an empty body.
            let found = fs::read(fetched.join(number.to_string())).unwrap_or_default();
            assert_same(&found, &fs::read(site.root().join(path)).unwrap());
        }
        fs::remove_dir_all(&fetched).unwrap();
    }
}

fn types(driver: &'static str) {
    let table = [
        ("a.html", "text/html; charset=utf-8"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.json", "application/json; charset=utf-8"),
        ("a.txt", "text/plain; charset=utf-8"),
        ("a.svg", "image/svg+xml; charset=utf-8"),
        ("a.PNG", "image/png"),
        ("a.woff2", "font/woff2"),
        ("a.wasm", "application/wasm"),
        ("a.pdf", "application/pdf"),
        ("a.tar.gz", "application/gzip"),
        ("LICENSE", "application/octet-stream"),
        ("d.html/plain", "application/octet-stream"),
    ];
    let site = Site::new();
    for (name, _) in table {
        site.file(name, name);
    }
    let server = Server::start(driver, &site.root());
    let mut client = Client::connect(server.address);
    for (name, expected) in table {
        let response = client.get(&format!("/{name}"));
        assert_eq!(response.field("Content-Type"), Some(expected), "{name}");
        assert_eq!(response.body, name.as_bytes());
    }
}

fn directories(driver: &'static str) {
    let site = Site::new();
    site.file("index.html", "the root's");
    site.file("sub dir/index.html", "the index of the folder");
    fs::create_dir_all(site.root().join("empty")).unwrap();
    fs::create_dir_all(site.root().join("odd/index.html")).unwrap();
    let server = Server::start(driver, &site.root());
    let mut client = Client::connect(server.address);

    for (path, body) in [("/", "the root's"), ("//./", "the root's"), ("/?a=b", "the root's")] {
        assert_eq!(client.get(path).body, body.as_bytes(), "{path}");
    }
    let index = client.get("/sub%20dir/");
    assert_eq!(index.body, b"the index of the folder");
    assert_eq!(index.field("Content-Type"), Some("text/html; charset=utf-8"));

    // Without the trailing slash, relative links of the index would be wrong.
    let redirects = [
        ("/sub%20dir", "/sub%20dir/"),
        ("/sub%20dir?a=b&c=%2F", "/sub%20dir/?a=b&c=%2F"),
        ("//empty", "/empty/"),
        ("/empty?//evil.example", "/empty/?//evil.example"),
    ];
    for (path, location) in redirects {
        let redirect = client.get(path);
        assert_eq!(redirect.status, 301, "{path}");
        assert_eq!(redirect.field("Location"), Some(location));
        assert!(!redirect.has_connection_close());
    }
    for path in ["/empty/", "/odd/", "/index.html/", "/index.html/x", "/missing/", "/sub/x"] {
        let missing = client.get(path);
        assert_eq!(missing.status, 404, "{path}");
        assert!(missing.body.starts_with(b"<!doctype html>"), "an HTML page");
        assert!(!missing.has_connection_close());
    }
    // curl follows, like a browser.
    let url = format!("http://{}/sub%20dir?x", server.address);
    assert_eq!(curl_output(&["--location", &url]), "the index of the folder");
}

fn head_is_get_without_the_body(driver: &'static str) {
    let site = Site::new();
    site.file("small.html", "small");
    site.file("empty.txt", "");
    site.file("large.bin", random_bytes(1, 300_000));
    fs::create_dir(site.root().join("dir")).unwrap();
    let server = Server::start(driver, &site.root());
    let mut client = Client::connect(server.address);
    for path in ["/small.html", "/empty.txt", "/large.bin", "/dir", "/missing", "/..", "/.git"] {
        let get = client.get(path);
        let head = client.head_with(path, "");
        assert_eq!(
            (head.status, head.fields_except_date()),
            (get.status, get.fields_except_date())
        );
        // Ranges apply to GET only (RFC 9110 §14.2).
        let ranged = client.head_with(path, "Range: bytes=1-2\r\n");
        assert_eq!(
            (ranged.status, ranged.fields_except_date()),
            (get.status, get.fields_except_date())
        );
    }
    let tag = client.get("/small.html").field("ETag").unwrap().to_owned();
    let lines = format!("If-None-Match: {tag}\r\n");
    let (get, head) =
        (client.get_with("/small.html", &lines), client.head_with("/small.html", &lines));
    assert_eq!((head.status, head.fields_except_date()), (304, get.fields_except_date()));
}
