//! Responses for paths without a file: other indexes, a fallback, error pages.

use std::fs;
use std::process::Command;

use phalanx_testkit::bytes::{assert_same, random_bytes};
use phalanx_testkit::eventually;
use phalanx_testkit::http::{Client, get};
use phalanx_testkit::site::Site;

use crate::on_each_driver;
use crate::server::Server;

on_each_driver!(
    the_first_existing_index,
    no_index_at_all,
    clean_urls,
    files_to_try,
    a_single_page_application,
    error_pages_of_the_hosts_own,
    missing_error_pages,
);

const PAGE: &str = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";

fn the_first_existing_index(driver: &'static str) {
    let site = Site::new();
    site.file("one/index.html", "html");
    site.file("one/index.txt", "text");
    site.file("two/index.txt", "text");
    fs::create_dir_all(site.root().join("three/index.html")).unwrap();
    site.file("three/main.htm", "main");
    site.file("main.htm", "the root's");
    let names = ["--index", "index.html", "--index", "index.txt,main.htm"];
    let server = Server::start_with(driver, &site.root(), &names);
    for (path, expected) in
        [("/one/", "html"), ("/two/", "text"), ("/three/", "main"), ("/", "the root's")]
    {
        let response = get(server.address, path);
        assert_eq!((response.status, &response.body[..]), (200, expected.as_bytes()), "{path}");
    }
    let mut client = Client::connect(server.address);
    assert_eq!(client.get("/four/").status, 404);
    assert_eq!(client.get("/one/index.txt").body, b"text", "by its own name");
    // Later index files have tags and support conditions like the first.
    let etag = client.get("/two/").field("ETag").unwrap().to_owned();
    assert_eq!(client.get_with("/two/", &format!("If-None-Match: {etag}\r\n")).status, 304);
}

fn no_index_at_all(driver: &'static str) {
    let site = Site::new();
    site.file("index.html", "html");
    let server = Server::start_with(driver, &site.root(), &["--index", "", "--listing"]);
    let page = String::from_utf8(get(server.address, "/").body).unwrap();
    assert!(page.contains("href=\"./index.html\""), "{page}");
}

fn clean_urls(driver: &'static str) {
    let site = Site::new();
    site.file("about.html", "about");
    site.file("both", "without");
    site.file("both.html", "with");
    site.file("folder/index.html", "index");
    site.file("folder.html", "page");
    site.file("app.html", "app");
    let arguments = ["--clean-urls", "--fallback", "app.html"];
    let server = Server::start_with(driver, &site.root(), &arguments);
    let mut client = Client::connect(server.address);
    let page = client.get("/about");
    assert_eq!((page.status, &page.body[..]), (200, &b"about"[..]));
    assert_eq!(page.field("Content-Type"), Some("text/html; charset=utf-8"));
    let etag = format!("If-None-Match: {}\r\n", page.field("ETag").unwrap());
    assert_eq!(client.get_with("/about", &etag).status, 304);
    for (path, expected) in [("/about?a=b", "about"), ("/both", "without"), ("/folder/", "index")] {
        assert_eq!(client.get(path).body, expected.as_bytes(), "{path}");
    }
    assert_eq!(client.get("/folder").status, 301, "a directory takes precedence");
    for path in ["/missing", "/about/", "/.about", "/about.htm"] {
        assert_eq!(client.get(path).status, 404, "{path}");
    }
    for (path, location) in [
        ("/about.html", "/about"),
        ("/about.html?a=b", "/about?a=b"),
        ("//about.html", "/about"),
        ("/folder/index.html", "/folder/"),
        ("/a%20b.html", "/a%20b"),
    ] {
        let redirect = client.get(path);
        assert_eq!((redirect.status, redirect.field("Location")), (301, Some(location)), "{path}");
        assert_eq!(client.head_with(path, "").fields_except_date(), redirect.fields_except_date());
    }
    assert_eq!(client.get_with("/missing", PAGE).body, b"app");
    let curl =
        Command::new("curl").args(["-sf", &format!("http://{}/about", server.address)]).output();
    match curl {
        Ok(output) => assert_eq!(output.stdout, b"about"),
        Err(_) => println!("skipped: there is no curl"),
    }
}

/// Files to try for some paths: with conditions, ranges, codings and passwords as for other files.
fn files_to_try(driver: &'static str) {
    let site = Site::new();
    let page = "the program ".repeat(500);
    site.file("app/main.html", &page);
    site.file("app/main.html.gz", "compressed");
    site.file("app/style.css", "style");
    site.file("notes.md", "notes");
    site.file("folder/x", "");
    site.file("secret/key.md", "the key");
    let user = "eve:$2y$05$S/mVIKWr68CdjrqHTDjpi.6gEo.A9MT0cPoxs97RVEcxqRRom0j4e\n";
    fs::write(site.outside().join("passwords"), user).unwrap();
    fs::write(site.outside().join("outside.md"), "outside").unwrap();
    std::os::unix::fs::symlink("../outside.md", site.root().join("link.md")).unwrap();
    let config = "listen = '127.0.0.1:0'\n[host]\nroot = 'root'\nprecompressed = true\nsymlinks = 'follow'\n\
                  cache-control = [{ path = '/app/*.html', preset = 'revalidate' }]\n\
                  auth = [{ path = '/secret/*.md', users = 'passwords' }]\n\
                  rewrite = [{ from = '/program/**', to = '/app/$rest' }]\n\
                  try-files = [{ path = '/app/**', files = ['$path.md', '/app/main.html'] }, \
                  { files = ['$path.md', '/app$path'] }]\n";
    let server = Server::configured(driver, site.outside(), config, &[]);
    let mut client = Client::connect(server.address);
    for (path, expected) in [
        ("/app/users/7", &page[..]),
        ("/app/users/7/", &page),
        ("/app/", &page),
        ("/app/missing.js", &page),
        ("/app/style.css", "style"),
        ("/program/users", &page),
        ("/notes", "notes"),
        ("/style.css", "style"),
    ] {
        let response = client.get(path);
        assert_eq!((response.status, &response.body[..]), (200, expected.as_bytes()), "{path}");
        assert_eq!(client.head_with(path, "").fields_except_date(), response.fields_except_date());
    }
    for (path, status) in [
        ("/users", 404),
        ("/notes/", 404),
        ("/folder", 301),
        ("/folder/", 404),
        ("/secret/key", 401),
        ("/link", 403),
        ("/..%2foutside", 404),
        ("/%2e%2e/outside", 400),
        ("/.notes", 404),
    ] {
        assert_eq!(client.get(path).status, status, "{path}");
    }
    let full = client.get("/app/a");
    assert_eq!(full.field("Cache-Control"), Some("no-cache"), "the rules of the file apply");
    assert_eq!(full.field("Vary"), Some("Accept-Encoding"));
    let etag = format!("If-None-Match: {}\r\n", full.field("ETag").unwrap());
    assert_eq!(client.get_with("/app/b", &etag).status, 304);
    let part = client.get_with("/app/a", "Range: bytes=4-10\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &b"program"[..]));
    let coded = client.get_with("/app/a", "Accept-Encoding: gzip\r\n");
    assert_eq!(
        (coded.field("Content-Encoding"), &coded.body[..]),
        (Some("gzip"), &b"compressed"[..])
    );
    // A file that appears takes precedence.
    site.file("app/users/7", "a user");
    assert_eq!(client.get("/app/users/7").body, b"a user");
}

fn a_single_page_application(driver: &'static str) {
    let site = Site::new();
    site.file("app.html", "the program");
    site.file("real.txt", "real");
    site.file("sub/a.txt", "");
    let server = Server::start_with(driver, &site.root(), &["--fallback", "/app.html"]);
    let mut client = Client::connect(server.address);
    for path in ["/", "/users/7", "/users/7/", "/sub/", "/a.b", "/real.txt/x"] {
        let response = client.get_with(path, PAGE);
        assert_eq!((response.status, &response.body[..]), (200, &b"the program"[..]), "{path}");
        assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"));
        let head = client.head_with(path, PAGE);
        assert_eq!(head.fields_except_date(), response.fields_except_date());
    }
    assert_eq!(client.get_with("/real.txt", PAGE).body, b"real");
    assert_eq!(client.get_with("/sub", PAGE).status, 301, "existing files take precedence");
    for accept in ["*/*", "image/avif,image/webp,*/*;q=0.8", "text/html;q=0", "application/json"] {
        let response = client.get_with("/users/7", &format!("Accept: {accept}\r\n"));
        assert_eq!(response.status, 404, "{accept}");
    }
    assert_eq!(client.get("/users/7").status, 404, "a request for any type");
    assert_eq!(client.get_with("/%2e%2e/x", PAGE).status, 400, "not a valid path");
    fs::remove_file(site.root().join("app.html")).unwrap();
    eventually("the removal of the fallback", || {
        (client.get_with("/users/7", PAGE).status == 404).then_some(())
    });
}

fn error_pages_of_the_hosts_own(driver: &'static str) {
    let site = Site::new();
    let large = random_bytes(3, 200_000);
    site.file("errors/404.html", "nothing here");
    site.file("errors/400.txt", "what?");
    site.file("errors/405.html", "no");
    site.file("errors/406.html", &large);
    site.file("errors/412.html", "changed");
    site.file("errors/416.html", "beyond");
    site.file("a.txt", "0123456789");
    let pages: Vec<_> = ["404=/errors/404.html", "400=errors/400.txt", "405=errors/405.html"]
        .into_iter()
        .chain(["412=errors/412.html", "416=errors/416.html"])
        .flat_map(|page| ["--error-pages", page])
        .collect();
    let server = Server::start_with(driver, &site.root(), &pages);
    let mut client = Client::connect(server.address);
    for path in ["/nothing", "/nothing/", "/.hidden"] {
        let response = client.get(path);
        assert_eq!((response.status, &response.body[..]), (404, &b"nothing here"[..]), "{path}");
        assert_eq!(response.field("Cache-Control"), Some("no-store"));
        assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"));
        assert_eq!((response.field("ETag"), response.field("Last-Modified")), (None, None));
        let head = client.head_with(path, "");
        assert_eq!(head.fields_except_date(), response.fields_except_date());
    }
    let response = client.get("/%2e%2e/");
    assert_eq!((response.status, &response.body[..]), (400, &b"what?"[..]));
    assert_eq!(response.field("Content-Type"), Some("text/plain; charset=utf-8"));
    client.send("DELETE /a.txt HTTP/1.1\r\nHost: test\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status, &response.body[..]), (405, &b"no"[..]));
    assert_eq!(response.field("Allow"), Some("GET, HEAD, OPTIONS"));
    let response = client.get_with("/a.txt", "Range: bytes=10-\r\n");
    assert_eq!((response.status, &response.body[..]), (416, &b"beyond"[..]));
    assert_eq!(response.field("Content-Range"), Some("bytes */10"));
    let response = client.get_with("/a.txt", "If-Match: \"other\"\r\n");
    assert_eq!((response.status, &response.body[..]), (412, &b"changed"[..]));
    // Conditions and ranges apply to files, not to the error page.
    let lines = "Range: bytes=0-1\r\nIf-None-Match: *\r\nIf-Match: \"x\"\r\n";
    assert_eq!(client.get_with("/nothing", lines).status, 404);
    let own = client.get("/errors/404.html");
    assert_eq!((own.status, own.field("Cache-Control")), (200, None), "requested by name");
    drop(large);
}

fn missing_error_pages(driver: &'static str) {
    let site = Site::new();
    let large = random_bytes(3, 200_000);
    site.file("large.html", &large);
    let pages = ["--error-pages", "404=missing.html", "--error-pages", "400=large.html"];
    let server = Server::start_with(driver, &site.root(), &pages);
    let mut client = Client::connect(server.address);
    let response = client.get("/nothing");
    assert_eq!(response.status, 404);
    assert!(String::from_utf8_lossy(&response.body).contains("<b>404</b>"), "the built-in page");
    let response = client.get("/%2e%2e/");
    assert_eq!(response.status, 400);
    assert_same(&response.body, &large);
}
