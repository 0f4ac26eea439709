//! Directory listings: pages without scripts, and JSON.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use phalanx_testkit::eventually;
use phalanx_testkit::http::{Client, get};
use phalanx_testkit::site::Site;

use crate::on_one_driver;
use crate::server::Server;

on_one_driver!(
    links_lead_to_the_files,
    sorted_by_links,
    json_for_programs,
    a_listing_reflects_changes,
    off_by_default,
    compressed_like_files,
);

const LISTING: &[&str] = &["--listing"];

/// The targets of a page's links, with entities decoded.
fn links(page: &str) -> Vec<String> {
    let links = page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    links.map(|link| link.replace("&amp;", "&")).collect()
}

fn links_lead_to_the_files(driver: &'static str) {
    let site = Site::new();
    let names: [&[u8]; 9] = [
        b"plain.txt",
        b"with space & more.txt",
        b"<script>alert(1)",
        b"quote\"'.txt",
        b"100%25.txt",
        b"#hash?query",
        b"javascript:alert(1)",
        "ümläut.txt".as_bytes(),
        b"not-utf8-\xff",
    ];
    for name in names {
        site.file(std::path::Path::new("sub").join(std::ffi::OsStr::from_bytes(name)), name);
    }
    site.file("sub/.hidden", "secret");
    site.file("sub/deep/index.html", "the index");
    fs::create_dir(site.root().join("sub/empty")).unwrap();
    let server = Server::start_with(driver, &site.root(), LISTING);
    let mut client = Client::connect(server.address);
    let response = client.get("/sub/");
    assert_eq!(response.status, 200);
    assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(response.field("Vary"), Some("Accept"));
    assert_eq!(response.field("Cache-Control"), Some("no-cache"));
    let page = String::from_utf8(response.body.clone()).unwrap();
    assert!(!page.contains("<script") && !page.contains("hidden"), "{page}");
    assert!(!page.contains("http:") && !page.contains("https:"), "nothing from elsewhere: {page}");
    assert!(page.contains("&lt;script&gt;alert(1)</a>"), "{page}");
    let mut files: Vec<Vec<u8>> = Vec::new();
    for link in links(&page) {
        if let Some(name) = link.strip_prefix("./").filter(|name| !name.is_empty()) {
            let found = client.get(&format!("/sub/{name}"));
            assert_eq!(found.status, 200, "{link}");
            files.push(found.body);
        }
    }
    for name in names {
        assert!(files.iter().any(|body| body == name), "{:?}", String::from_utf8_lossy(name));
    }
    assert_eq!(files.len(), names.len() + 2, "the directories too");
    assert!(files.iter().any(|body| body == b"the index"));
    // A listing is a representation like others.
    let etag = response.field("ETag").unwrap();
    let reread = client.get_with("/sub/", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!(reread.status, 304);
    let head = client.head_with("/sub/", "");
    assert_eq!(head.fields_except_date(), response.fields_except_date());
    assert_eq!(client.get("/sub").field("Location"), Some("/sub/"));
    assert_eq!(client.get("/").status, 200);
    assert_eq!(client.get("/sub/plain.txt/").status, 404, "not a directory");
    assert_eq!(client.get("/nothing/").status, 404);
}

fn sorted_by_links(driver: &'static str) {
    let site = Site::new();
    for (name, length) in [("b2", 30), ("b10", 10), ("A", 20)] {
        site.file(name, vec![b'x'; length]);
    }
    fs::create_dir(site.root().join("z")).unwrap();
    let server = Server::start_with(driver, &site.root(), LISTING);
    let order = |query: &str| {
        let page = String::from_utf8(get(server.address, &format!("/{query}")).body).unwrap();
        let names =
            links(&page).into_iter().filter_map(|link| Some(link.strip_prefix("./")?.to_owned()));
        names.filter(|name| !name.is_empty()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(order(""), "z/ A b2 b10");
    assert_eq!(order("?sort=name&order=desc"), "z/ b10 b2 A");
    assert_eq!(order("?sort=size"), "z/ b10 A b2");
    assert_eq!(order("?sort=size&order=desc"), "z/ b2 A b10");
    // The column headings link to the other orders.
    let page = String::from_utf8(get(server.address, "/").body).unwrap();
    let headings: Vec<_> = links(&page).into_iter().filter(|link| link.starts_with('?')).collect();
    assert_eq!(
        headings,
        ["?sort=name&order=desc", "?sort=size&order=desc", "?sort=time&order=desc"]
    );
    assert_eq!(order(&headings[1]), "z/ b2 A b10");
}

fn json_for_programs(driver: &'static str) {
    let site = Site::new();
    site.file("sub/a \"b\".txt", "12345");
    fs::create_dir(site.root().join("sub/deep")).unwrap();
    let server = Server::start_with(driver, &site.root(), LISTING);
    let mut client = Client::connect(server.address);
    let response = client.get_with("/sub/", "Accept: application/json\r\n");
    assert_eq!(response.field("Content-Type"), Some("application/json"));
    assert_eq!(response.field("Vary"), Some("Accept"));
    let json: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!((&json["path"], &json["cut"]), (&"/sub/".into(), &false.into()));
    let [directory, file] = &json["entries"].as_array().unwrap()[..] else { panic!("{json}") };
    assert_eq!((&directory["name"], &directory["kind"]), (&"deep".into(), &"directory".into()));
    assert_eq!((&file["name"], &file["size"]), (&"a \"b\".txt".into(), &5.into()));
    let href = file["href"].as_str().unwrap();
    assert_eq!(client.get(&format!("/sub/{href}")).body, b"12345");
    for (accept, expected) in [
        ("*/*", "text/html"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html"),
        ("application/json, text/plain, */*", "application/json"),
        ("application/json;q=0.5, text/html", "text/html"),
        ("application/json;q=0", "text/html"),
    ] {
        let response = client.get_with("/sub/", &format!("Accept: {accept}\r\n"));
        let kind = response.field("Content-Type").unwrap();
        assert_eq!(kind.split(';').next(), Some(expected), "{accept}");
    }
}

fn a_listing_reflects_changes(driver: &'static str) {
    let site = Site::new();
    site.file("first", "");
    let server = Server::start_with(driver, &site.root(), LISTING);
    let page = || String::from_utf8(get(server.address, "/").body).unwrap();
    assert!(page().contains("./first"));
    site.file("second", "");
    eventually("the new name", || page().contains("./second").then_some(()));
    site.file("index.html", "an index");
    eventually("the new index", || (page() == "an index").then_some(()));
    fs::remove_file(site.root().join("index.html")).unwrap();
    fs::remove_file(site.root().join("first")).unwrap();
    eventually("the old name to be removed", || {
        let page = page();
        (page.contains("./second") && !page.contains("./first")).then_some(())
    });
}

fn off_by_default(driver: &'static str) {
    let site = Site::new();
    site.file("sub/a", "");
    let server = Server::start(driver, &site.root());
    for path in ["/", "/sub/", "/sub/?sort=name"] {
        assert_eq!(get(server.address, path).status, 404, "{path}");
    }
}

fn compressed_like_files(driver: &'static str) {
    let site = Site::new();
    for n in 0..1000 {
        fs::write(site.root().join(format!("file {n}")), "").unwrap();
    }
    let server = Server::start_with(driver, &site.root(), &["--listing", "--compress"]);
    let mut client = Client::connect(server.address);
    eventually("it is compressed", || {
        let response = client.get_with("/", "Accept-Encoding: gzip\r\n");
        assert_eq!(response.field("Vary"), Some("Accept, Accept-Encoding"));
        (response.field("Content-Encoding") == Some("gzip")).then_some(())
    });
}
