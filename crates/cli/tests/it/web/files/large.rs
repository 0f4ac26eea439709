//! Large files: sent from the page cache, and correct despite concurrent changes.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{IoSliceMut, Read};
use std::path::Path;

use phalanx_testkit::bytes::{assert_same, random_bytes};
use phalanx_testkit::eventually;
use phalanx_testkit::http::{Client, find, get};
use phalanx_testkit::procfs::anonymous_bytes;
use phalanx_testkit::site::{Site, age as set_age};
use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};
use rustix::param::page_size;

use crate::on_each_driver;
use crate::server::Server;
use crate::web::connections::slow_clients::slow_client;

on_each_driver!(
    files_use_no_server_memory,
    uncached_files,
    ranges,
    truncated_anywhere,
    gone_clients,
    medium_files,
    fresh_files_are_copied,
);

const LARGE: usize = 24 << 20;

/// Whether the file system reports cached pages. On others, files are read.
fn tells(path: &Path) -> bool {
    let file = File::open(path).unwrap();
    (&file).read_exact(&mut [0]).unwrap();
    let read = preadv2(&file, &mut [IoSliceMut::new(&mut [0])], 0, ReadWriteFlags::NOWAIT);
    if read.is_err() {
        println!("skipped: the file system does not tell what is in memory");
    }
    read.is_ok()
}

fn files_use_no_server_memory(driver: &'static str) {
    let site = Site::new();
    let content = random_bytes(1, LARGE);
    let path = site.file("large", &content);
    site.file("small", "small");
    if !tells(&path) {
        return;
    }
    let server = Server::start(driver, &site.root());
    get(server.address, "/small");
    let before = anonymous_bytes(server.pid());
    // These clients do not read.
    let _stuck: Vec<_> = (0..8).map(|_| slow_client(server.address, "/large")).collect();
    for _ in 0..3 {
        assert_same(&get(server.address, "/large").body, &content);
    }
    let growth = anonymous_bytes(server.pid()).saturating_sub(before);
    assert!(growth < 4 << 20, "{} KiB more for a file of {} KiB", growth >> 10, LARGE >> 10);
}

/// Evicts a file's pages from `offset` on.
fn forget(path: &Path, offset: u64) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, offset, None, Advice::DontNeed).unwrap();
}

fn uncached_files(driver: &'static str) {
    let site = Site::new();
    let content = random_bytes(2, (3 << 20) + 7);
    let path = site.file("large", &content);
    let server = Server::start(driver, &site.root());
    let mut client = Client::connect(server.address);
    for offset in [0, 100_000, 2_000_000, 3 << 20] {
        forget(&path, offset);
        assert_same(&client.get("/large").body, &content);
        forget(&path, offset);
        let part = client.get_with("/large", "Range: bytes=70000-2500000\r\n");
        assert_same(&part.body, &content[70_000..=2_500_000]);
    }
}

fn ranges(driver: &'static str) {
    let site = Site::new();
    let content = random_bytes(3, 5 << 20);
    site.file("large", &content);
    let server = Server::start(driver, &site.root());
    let mut client = Client::connect(server.address);
    for (from, to) in [(0, 1 << 20), (1, 131_073), (131_071, 400_000), (3_000_001, (5 << 20) - 1)] {
        let part = client.get_with("/large", &format!("Range: bytes={from}-{to}\r\n"));
        assert_eq!(part.status, 206);
        assert_same(&part.body, &content[from..=to]);
    }
    let parts = client.get_with("/large", "Range: bytes=5-1000000,2000000-4000000\r\n").body;
    for part in [&content[5..=1_000_000], &content[2_000_000..=4_000_000]] {
        let begins = parts.windows(32).position(|bytes| *bytes == part[..32]).unwrap();
        assert_same(&parts[begins..begins + part.len()], part);
    }
    // No content, and none left over for the next response.
    assert_eq!(client.head_with("/large", "").field("content-length"), Some("5242880"));
    assert_same(&client.get("/large").body, &content);
}

/// A complete response has only bytes of the file. The last bytes of an incomplete response may be zeros, up to the end
/// of the page in which the file now ends.
fn truncated_anywhere(driver: &'static str) {
    let site = Site::new();
    let content = random_bytes(4, LARGE);
    let server = Server::start(driver, &site.root());
    // Truncates a file while the server sends it, and returns the length of the body.
    let truncated = |name: &str, length: usize| {
        let path = site.file(name, &content);
        let mut slow = slow_client(server.address, &format!("/{name}"));
        File::options().write(true).open(&path).unwrap().set_len(length as u64).unwrap();
        let (bytes, _) = slow.read_to_end();
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let body = &bytes[head..];
        let end = length.min(body.len());
        let page_end = length.next_multiple_of(page_size()).min(body.len());
        assert_same(&body[..end], &content[..end]);
        assert_same(&body[page_end..], &content[page_end..body.len()]);
        let cleared = |n: usize| body.len() < LARGE && body[n] == 0;
        assert!(
            (end..page_end).all(|n| body[n] == content[n] || cleared(n)),
            "cut off to {length}"
        );
        body.len()
    };
    for length in [0, 1, 8192, (1 << 20) + 5, LARGE - 9999, LARGE - 1] {
        // On a busy machine the truncation may come after the server has read the file.
        let mut attempts = (0..5).map(|attempt| truncated(&format!("{length}-{attempt}"), length));
        assert!(attempts.any(|sent| sent < LARGE), "cut off to {length}");
    }
}

/// Files that leave in one send, with a copy and without.
fn medium_files(driver: &'static str) {
    for send in ["zero-copy", "copy"] {
        let site = Site::new();
        let server = Server::start_with(driver, &site.root(), &["--send", send]);
        for length in [65_537, 102_400, 131_072, 131_073, 400_000, 524_288, 524_289] {
            let mut client = Client::connect(server.address);
            let (name, content) = (format!("{length}"), random_bytes(length as u64, length));
            let path = site.file(&name, &content);
            assert_same(&client.get(&format!("/{name}")).body, &content);
            let part = client.get_with(&format!("/{name}"), "Range: bytes=1-50000\r\n");
            assert_same(&part.body, &content[1..=50_000]);
            forget(&path, 70_000);
            assert_same(&client.get(&format!("/{name}")).body, &content);
            // Overwritten in place. The server may close the first connection: it compares the file's time after the
            // last byte, and cannot tell whether the change came before or after it.
            let other = random_bytes(1, length);
            std::fs::write(&path, &other).unwrap();
            assert_same(&get(server.address, &format!("/{name}")).body, &other);
        }
    }
}

/// A file that has just changed may change again, and what the client receives must not.
fn fresh_files_are_copied(driver: &'static str) {
    let site = Site::new();
    let content = random_bytes(6, 400_000);
    for (send, age) in [("zero-copy", 0), ("copy", 3600)] {
        let path = site.file("file", &content);
        set_age(&path, age);
        let server = Server::start_with(driver, &site.root(), &["--send", send]);
        let mut slow = slow_client(server.address, "/file");
        File::options().write(true).open(&path).unwrap().set_len(1).unwrap();
        while slow.received().len() < content.len() && slow.read_more().is_ok_and(|count| count > 0)
        {
        }
        let (bytes, end) = (slow.received(), b"\r\n\r\n");
        let body = &bytes[find(bytes, end).unwrap() + end.len()..];
        assert_same(body, &content[..body.len()]);
    }
}

/// Clients that disconnect in the middle leak nothing.
fn gone_clients(driver: &'static str) {
    let site = Site::new();
    site.file("large", random_bytes(5, LARGE));
    site.file("small", "small");
    let server = Server::start(driver, &site.root());
    drop(slow_client(server.address, "/large"));
    let open = || phalanx_testkit::procfs::descriptors(server.pid());
    let before = eventually("an idle server", || {
        let now = open();
        std::thread::sleep(std::time::Duration::from_millis(50));
        (now == open()).then_some(now)
    });
    for _ in 0..50 {
        drop(slow_client(server.address, "/large"));
    }
    eventually("no more descriptors than before", || (open() <= before).then_some(()));
    assert_eq!(get(server.address, "/small").body, b"small");
}
