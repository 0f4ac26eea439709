//! Listening on Unix sockets, with curl.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use phalanx_testkit::process::curl;
use phalanx_testkit::site::Site;

use crate::on_each_driver;
use crate::server::{Server, bare};

on_each_driver!(served_until_the_end, changed_while_it_runs, behind_a_proxy);

/// Starts a server on an address of the network, which reports readiness, and on these addresses.
fn start(driver: &str, site: &Site, listen: &[&str], args: &str) -> Server {
    site.file("file", "content");
    Server::configured(driver, site.outside(), &config(listen, args), &[])
}

fn config(listen: &[&str], args: &str) -> String {
    let all: Vec<_> = ["127.0.0.1:0"].iter().chain(listen).collect();
    format!("listen = {all:?}\n{args}\nhost.root = 'root'\n")
}

fn socket(site: &Site, name: &str) -> (PathBuf, String) {
    let path = site.outside().join(name);
    let address = format!("unix:{}", path.display());
    (path, address)
}

/// Requests `/file` with curl; none if there is no server.
fn ask(socket: &Path, args: &[&str]) -> Option<String> {
    let own = ["--unix-socket", socket.to_str().unwrap(), "http://h/file"];
    let output = curl(&[&own, args].concat());
    output.status.success().then(|| String::from_utf8(output.stdout).expect("text"))
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn served_until_the_end(driver: &'static str) {
    let site = Site::new();
    let (path, address) = socket(&site, "a.sock");
    let mut server = start(driver, &site, &[&address], "");
    assert_eq!(server.line(), format!("listening on http://{address}"));
    assert_eq!(mode(&path), 0o660);
    assert_eq!(ask(&path, &[]).as_deref(), Some("content"));
    // A killed server leaves its file behind, which the next one replaces.
    server.kill();
    assert!(path.exists());
    let server = start(driver, &site, &[&address], "");
    assert_eq!(ask(&path, &[]).as_deref(), Some("content"));
    // Another server cannot take a socket in use, and leaves it there.
    let mut command = bare();
    let second = command.arg("web").arg(site.root()).args(["--listen", &address]);
    let output = second.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains(&address), "{errors}");
    assert_eq!(ask(&path, &[]).as_deref(), Some("content"));
    let mut server = server;
    server.shut_down();
    assert!(!path.exists());
}

fn changed_while_it_runs(driver: &'static str) {
    let site = Site::new();
    let ((first, first_address), (second, second_address)) =
        (socket(&site, "a.sock"), socket(&site, "b.sock"));
    let server = start(driver, &site, &[&first_address], "");
    let reload = |listen: &[&str]| {
        fs::write(site.outside().join("web.toml"), config(listen, "")).unwrap();
        server.reloaded();
    };
    reload(&[&format!("{first_address}?mode=600"), &second_address]);
    assert_eq!((mode(&first), mode(&second)), (0o600, 0o660));
    for path in [&first, &second] {
        assert_eq!(ask(path, &[]).as_deref(), Some("content"));
    }
    reload(&[&second_address]);
    assert!(!first.exists());
    assert_eq!(ask(&second, &[]).as_deref(), Some("content"));
}

/// A client of a Unix socket counts as one of this machine, and may name others if that is trusted.
fn behind_a_proxy(driver: &'static str) {
    let site = Site::new();
    let (path, address) = socket(&site, "a.sock");
    let args = "real-ip-from = '127.0.0.1'\ndeny = '192.0.2.0/24'";
    let _server = start(driver, &site, &[&address], args);
    assert_eq!(ask(&path, &[]).as_deref(), Some("content"));
    let status = ["-H", "X-Forwarded-For: 192.0.2.1", "-o", "/dev/null", "-w", "%{http_code}"];
    assert_eq!(ask(&path, &status).as_deref(), Some("403"));
}
