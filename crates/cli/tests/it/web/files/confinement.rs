//! Confinement to the root: no files outside, no hidden files, only regular files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::process::Command;

use phalanx_testkit::http::{Client, get};
use phalanx_testkit::site::Site;
use rustix::fs::{FileType, Mode};

use crate::on_each_driver;
use crate::server::{Server, program};

on_each_driver!(paths_outside_the_root, hidden, links, special_files, unreadable);

const SECRET: &str = "this is secret";

fn paths_outside_the_root(driver: &'static str) {
    let site = Site::new();
    fs::write(site.outside().join("secret"), SECRET).unwrap();
    site.file("a/b/file", "public");
    let server = Server::start(driver, &site.root());
    let ups = [
        "..",
        "%2e%2e",
        ".%2e",
        "%2E.",
        "..%2f",
        "%2e%2e%2f",
        "..%5c",
        "..\\",
        "..;",
        "..%00",
        "%252e%252e",
        "..%c0%af",
        "%c0%ae%c0%ae",
        "....//",
        "..//",
        "./..",
        "...",
        "..%20",
    ];
    for up in ups {
        for before in ["", "/a", "/a/b", "//", "/."] {
            for after in ["secret", "/secret", "root/../secret"] {
                for slash in ["", "/"] {
                    let path = format!("{before}/{up}/{slash}{after}");
                    let mut client = Client::connect(server.address);
                    let response = client.get(&path);
                    assert!([400, 403, 404].contains(&response.status), "{path}: {response:?}");
                    assert!(!String::from_utf8_lossy(&response.body).contains(SECRET), "{path}");
                }
            }
        }
    }
    let outside = site.outside().join("secret");
    assert_eq!(
        get(server.address, outside.to_str().unwrap()).status,
        404,
        "not the root of the file system"
    );
    assert_eq!(get(server.address, "/a/b/file").body, b"public");
}

fn hidden(driver: &'static str) {
    let site = Site::new();
    for path in [".env", ".git/config", "a/.htaccess", "a/.hidden/file", "a/.well-known/x", "..x"] {
        site.file(path, SECRET);
    }
    site.file(".well-known/security.txt", "public");
    let server = Server::start(driver, &site.root());
    for path in [
        "/.env",
        "/%2eenv",
        "/.git/config",
        "/.git/",
        "/.git",
        "/a/.htaccess",
        "/a/.hidden/file",
        "/a/.well-known/x",
        "/..x",
        "/.",
    ] {
        assert_eq!(get(server.address, path).status, 404, "{path}");
    }
    assert_eq!(get(server.address, "/.well-known/security.txt").body, b"public", "RFC 8615");
}

fn links(driver: &'static str) {
    let site = Site::new();
    let (root, outside) = (site.root(), site.outside());
    fs::write(outside.join("secret"), SECRET).unwrap();
    fs::create_dir(outside.join("elsewhere")).unwrap();
    fs::write(outside.join("elsewhere/index.html"), SECRET).unwrap();
    site.file("dir/file.txt", "public");
    site.file("dir/index.html", "index");
    let link = |target: &str, name: &str| symlink(target, root.join(name)).unwrap();
    link("../secret", "out");
    link("../../secret", "dir/out");
    link("../elsewhere", "outdir");
    link(outside.join("secret").to_str().unwrap(), "absolute");
    link("/etc/passwd", "passwd");
    link("/proc/self/cwd", "magic");
    link("..", "parent");
    link("loop", "loop");
    link("nowhere", "dangling");
    link("dir/file.txt", "in.txt");
    link("dir", "indir");
    link("../dir/file.txt", "dir/around.txt");
    let server = Server::start(driver, &root);
    for path in [
        "/out",
        "/dir/out",
        "/outdir/",
        "/outdir",
        "/outdir/index.html",
        "/absolute",
        "/passwd",
        "/magic/secret",
        "/magic/",
        "/parent/secret",
        "/parent/root/dir/file.txt",
        "/loop",
    ] {
        let response = get(server.address, path);
        assert_eq!(response.status, 403, "{path}");
        assert!(!String::from_utf8_lossy(&response.body).contains(SECRET));
    }
    assert_eq!(get(server.address, "/dangling").status, 404);
    // By default links within the root are followed if they have the owner of their target: see
    // crates/web/tests/it/symlinks.rs. Elsewhere than on Linux they are not.
    let within = [("/in.txt", 200), ("/indir/file.txt", 200), ("/indir/", 200), ("/indir", 301)];
    for (path, status) in within.into_iter().chain([("/dir/around.txt", 200)]) {
        let status = if cfg!(target_os = "linux") { status } else { 403 };
        assert_eq!(get(server.address, path).status, status, "{path}");
    }
    // A file replaced by a link is rejected, though it was served before.
    assert_eq!(get(server.address, "/dir/file.txt").body, b"public");
    fs::remove_file(root.join("dir/file.txt")).unwrap();
    link("../../secret", "dir/file.txt");
    phalanx_testkit::eventually("the new type of the file", || {
        (get(server.address, "/dir/file.txt").status == 403).then_some(())
    });
}

/// Opening a pipe must not block, and a socket cannot be opened at all.
fn special_files(driver: &'static str) {
    let site = Site::new();
    site.file("file", "public");
    let pipe = site.root().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .unwrap();
    let _socket = UnixListener::bind(site.root().join("socket")).unwrap();
    let server = Server::start(driver, &site.root());
    for _ in 0..20 {
        assert_eq!(get(server.address, "/pipe").status, 403);
        assert_eq!(get(server.address, "/socket").status, 403);
        assert_eq!(get(server.address, "/file").body, b"public");
    }
}

fn unreadable(driver: &'static str) {
    let site = Site::new();
    let forbid = |path: &str| {
        let path = site.root().join(path);
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    };
    site.file("private", SECRET);
    site.file("closed/file", SECRET);
    site.file("open", "public");
    forbid("private");
    forbid("closed");
    let mut command = program(driver, &site.root());
    if rustix::process::geteuid().is_root() {
        // Root can read everything, so the server runs as nobody, from a folder that nobody can read.
        let Some(as_nobody) = as_nobody(&site, command) else { return };
        command = as_nobody;
    }
    let server = Server::launch(command);
    for path in ["/private", "/closed/file", "/closed/", "/closed/missing"] {
        let response = get(server.address, path);
        assert_eq!(response.status, 403, "{path}");
    }
    assert_eq!(get(server.address, "/open").body, b"public");
    // Otherwise `closed` could not be removed.
    let path = site.root().join("closed");
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
}

fn as_nobody(site: &Site, command: Command) -> Option<Command> {
    const NOBODY: u32 = 65534;
    let copy = site.outside().join("phalanx");
    fs::copy(command.get_program(), &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(site.outside(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut probe = Command::new(&copy);
    if !probe.arg("--version").uid(NOBODY).gid(NOBODY).output().is_ok_and(|o| o.status.success()) {
        println!("skipped: root, and what is in {} is not nobody's to run", copy.display());
        return None;
    }
    let mut unprivileged = Command::new(copy);
    unprivileged.args(command.get_args()).env_clear().uid(NOBODY).gid(NOBODY);
    Some(unprivileged)
}
