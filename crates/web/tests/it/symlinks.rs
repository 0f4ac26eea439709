//! Symbolic links below the root under each policy; nothing outside is ever served, even if files move
//! meanwhile.

#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::{lchown, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phalanx_testkit::TIMEOUT;
use phalanx_web::{Config, Symlinks};

use crate::common::Server;

const SECRET: &str = "this is secret";

/// Serves `root` with this policy on each driver in turn.
fn on_each_driver(policy: Symlinks, root: &Path, test: impl Fn(&Server)) {
    let configure = |_: &Path| {
        let mut config = Config::with_root(root);
        config.hosts[0].symlinks = policy;
        // Check the disk for each request.
        config.timeouts.revalidate = Duration::ZERO;
        config
    };
    crate::common::on_each_driver(configure, |server, _| test(server));
}

/// Sends a request; returns status and body.
fn get(server: &Server, path: &str) -> (u16, String) {
    let answer = crate::common::read_to_end(&mut crate::common::ask(server, path));
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head[9..12].parse().unwrap(), body.to_owned())
}

/// A root with links inside it and out of it, and a secret next to it.
fn tree() -> tempfile::TempDir {
    let outside = tempfile::tempdir().unwrap();
    let root = outside.path().join("root");
    fs::create_dir_all(root.join("dir")).unwrap();
    fs::create_dir(outside.path().join("elsewhere")).unwrap();
    fs::write(outside.path().join("elsewhere/file"), SECRET).unwrap();
    fs::write(outside.path().join("secret"), SECRET).unwrap();
    fs::write(root.join("dir/file"), "within").unwrap();
    fs::write(root.join("dir/index.html"), "index").unwrap();
    for (target, name) in [
        ("dir/file", "in"),
        ("dir", "indir"),
        ("in", "chain"),
        ("../secret", "out"),
        ("../elsewhere", "outdir"),
        ("/etc/passwd", "absolute"),
        ("..", "parent"),
        ("loop", "loop"),
        ("/proc/self/cwd", "magic"),
    ] {
        symlink(target, root.join(name)).unwrap();
    }
    outside
}

const WITHIN: [&str; 5] = ["/in", "/indir/file", "/chain", "/indir/", "/indir"];
const OUT: [&str; 8] = [
    "/out",
    "/outdir/file",
    "/outdir",
    "/absolute",
    "/parent/secret",
    "/parent/root/dir/file",
    "/loop",
    "/magic/",
];

fn none_leads_out(server: &Server) {
    for path in OUT {
        let (status, body) = get(server, path);
        assert_eq!(status, 403, "{path}");
        assert!(!body.contains(SECRET), "{path}");
    }
    assert_eq!(get(server, "/dir/file"), (200, "within".to_owned()));
}

#[test]
fn refused() {
    let outside = tree();
    on_each_driver(Symlinks::Deny, &outside.path().join("root"), |server| {
        none_leads_out(server);
        for path in WITHIN {
            assert_eq!(get(server, path).0, 403, "{path}");
        }
    });
}

#[test]
fn followed() {
    let outside = tree();
    on_each_driver(Symlinks::Follow, &outside.path().join("root"), |server| {
        none_leads_out(server);
        for path in &WITHIN[..3] {
            assert_eq!(get(server, path), (200, "within".to_owned()), "{path}");
        }
        assert_eq!(get(server, "/indir/"), (200, "index".to_owned()));
        assert_eq!(get(server, "/indir").0, 301);
    });
}

/// A page of the configuration behind a link, of the same owner and of another one. Needs root, to change owners.
#[test]
fn a_check_follows_the_policy() {
    let home = tree();
    let root = home.path();
    std::fs::write(root.join("page"), "page").unwrap();
    for link in ["own", "foreign"] {
        symlink("page", root.join(link)).unwrap();
    }
    let mut config = phalanx_web::Config::with_root(root);
    let mut check = |policy, page: &str| {
        config.hosts[0].symlinks = policy;
        config.hosts[0].error_pages = vec![(404, page.to_owned())];
        config.unavailable().join("\n")
    };
    assert_eq!(check(Symlinks::OwnerMatches, "own"), "");
    assert!(check(Symlinks::Deny, "own").contains("which `symlinks` denies"));
    assert!(check(Symlinks::Follow, "missing").contains("No such file"));
    if lchown(root.join("foreign"), Some(12_345), Some(12_345)).is_err() {
        return println!("skipped: only root may change owners");
    }
    assert!(check(Symlinks::OwnerMatches, "foreign").contains("another owner"));
    assert_eq!(check(Symlinks::Follow, "foreign"), "");
    symlink("/etc/passwd", root.join("outside")).unwrap();
    assert!(check(Symlinks::Follow, "outside").contains("outside the root"));
}

#[test]
fn owner_matches() {
    let outside = tree();
    let root = outside.path().join("root");
    on_each_driver(Symlinks::OwnerMatches, &root, |server| {
        none_leads_out(server);
        for path in &WITHIN[..3] {
            assert_eq!(get(server, path), (200, "within".to_owned()), "{path}");
        }
        assert_eq!(get(server, "/indir/"), (200, "index".to_owned()));
        // Changing the owner of a link requires root.
        let own = |name: &str, owner| lchown(root.join(name), Some(owner), Some(owner));
        if own("in", 1001).is_err() {
            println!("skipped: only root may change owners");
            return;
        }
        assert_eq!(get(server, "/in").0, 403, "the file is not the link's owner's");
        assert_eq!(get(server, "/chain").0, 403, "neither is the link on the way");
        own("dir/file", 1001).unwrap();
        assert_eq!(get(server, "/in"), (200, "within".to_owned()));
        assert_eq!(get(server, "/chain").0, 403, "its end is another's");
        for name in ["in", "dir/file"] {
            own(name, rustix::process::geteuid().as_raw()).unwrap();
        }
    });
}

/// Stops the moving thread when the test ends, also by a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// While requests run, a directory is repeatedly replaced by a link out of the root, and a file likewise.
#[test]
fn moving_files_does_not_escape_the_root() {
    for policy in [Symlinks::Deny, Symlinks::OwnerMatches, Symlinks::Follow] {
        let outside = tree();
        let root = outside.path().join("root");
        fs::create_dir(root.join("moving")).unwrap();
        fs::write(root.join("moving/file"), "within").unwrap();
        symlink("../elsewhere", root.join("bad")).unwrap();
        symlink("moving", root.join("by")).unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                // Replaced atomically: the name always exists.
                while !stop.load(Ordering::Relaxed) {
                    let (a, b) = (root.join("moving"), root.join("bad"));
                    rustix::fs::renameat_with(
                        rustix::fs::CWD,
                        &a,
                        rustix::fs::CWD,
                        &b,
                        rustix::fs::RenameFlags::EXCHANGE,
                    )
                    .unwrap();
                }
            });
            let _stop = Stop(&stop);
            on_each_driver(policy, &root, |server| {
                let (started, mut served, mut refused) = (Instant::now(), 0, 0);
                // Until both states were seen many times.
                for round in 0.. {
                    for path in ["/moving/file", "/by/file", "/bad/file"] {
                        let (status, body) = get(server, path);
                        assert!(!body.contains(SECRET), "{path} {policy:?}");
                        match status {
                            200 => {
                                assert_eq!(body, "within");
                                served += 1;
                            }
                            // 404 if it changed between two checks.
                            403 | 404 => refused += 1,
                            other => panic!("{path}: {other}"),
                        }
                    }
                    if round >= 60 && served > 0 && refused > 0 {
                        break;
                    }
                    assert!(started.elapsed() < TIMEOUT, "{served} served, {refused} refused");
                }
            });
        });
    }
}
