//! Directories that appear below a path, and presets of `Cache-Control`.

use std::fs;
use std::path::Path;

use phalanx_testkit::http::{Client, get};
use phalanx_testkit::process::curl_output;
use phalanx_testkit::site::Site;

use crate::on_each_driver;
use crate::server::{Server, bare};

on_each_driver!(files_below_a_path, other_directories_after_a_reload);

/// A site with the directories `images` and `deep` beside its root.
fn site() -> Site {
    let site = Site::new();
    site.file("index.html", "index");
    site.file("images/hidden", "below the root");
    site.file("imagesque", "not below the path");
    let sibling = |path: &str, content: &str| {
        let path = site.outside().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    sibling("images/a.png", "an image");
    sibling("images/sub/index.html", "an index");
    sibling("images/.secret", "secret");
    sibling("deep/x", "deep");
    fs::write(site.outside().join("secret"), "secret").unwrap();
    site
}

fn config(images: &str) -> String {
    format!(
        "listen = '127.0.0.1:0'\n[host]\nroot = 'root'\n\
         alias = [{{ path = '/images', root = '{images}' }}, {{ path = '/images/deep/', root = 'deep' }}]\n\
         cache-control = [{{ path = '/images/**', preset = 'immutable' }}, {{ path = '/**', preset = 'never' }}]\n"
    )
}

fn files_below_a_path(driver: &'static str) {
    let site = site();
    let server = Server::configured(driver, site.outside(), &config("images"), &[]);
    let url = |path: &str| format!("http://{}{path}", server.address);
    for (path, body) in [
        ("/", "index"),
        ("/images/a.png", "an image"),
        ("/images/sub/", "an index"),
        ("/images/deep/x", "deep"),
        ("/imagesque", "not below the path"),
    ] {
        assert_eq!(curl_output(&[&url(path)]), body, "{path}");
    }
    let mut client = Client::connect(server.address);
    for (path, status) in [
        ("/images", 301),
        ("/images/deep", 301),
        ("/images/hidden", 404),
        ("/images/.secret", 404),
        ("/images/../secret", 400),
        ("/images/%2e%2e/secret", 400),
        ("/images/", 404),
    ] {
        assert_eq!(client.get(path).status, status, "{path}");
    }
    let cached = |path: &str| get(server.address, path).field("Cache-Control").map(str::to_owned);
    let immutable = "public, max-age=31536000, immutable";
    assert_eq!(cached("/images/a.png").as_deref(), Some(immutable));
    assert_eq!(cached("/").as_deref(), Some("no-store"));
}

fn other_directories_after_a_reload(driver: &'static str) {
    let site = site();
    let server = Server::configured(driver, site.outside(), &config("images"), &[]);
    let body = |path: &str| get(server.address, path).body;
    assert_eq!(body("/images/a.png"), b"an image");
    fs::create_dir(site.outside().join("new")).unwrap();
    fs::write(site.outside().join("new/a.png"), "another image").unwrap();
    fs::write(site.outside().join("web.toml"), config("new")).unwrap();
    server.reloaded();
    assert_eq!(body("/images/a.png"), b"another image");
    // A directory that does not exist is reported, and changes nothing.
    fs::write(site.outside().join("web.toml"), config("missing")).unwrap();
    assert!(check(&site.outside().join("web.toml")).contains("missing"));
    let output = server.reload();
    assert!(output.contains("phalanx: not reloaded"), "{output}");
    assert_eq!(body("/images/a.png"), b"another image");
}

/// The errors that `--check` reports.
fn check(config: &Path) -> String {
    let mut command = bare();
    let output = command.args(["web", "--check", "--config"]).arg(config).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}
