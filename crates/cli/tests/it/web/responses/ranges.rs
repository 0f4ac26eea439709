//! Ranges (RFC 9110 §14), at the boundaries of the server's blocks. The conformance suite tests their syntax.

use std::fs;

use phalanx_testkit::bytes::{assert_same, random_bytes};
use phalanx_testkit::http::Client;
use phalanx_testkit::process::{curl, curl_output};
use phalanx_testkit::site::Site;

use crate::on_each_driver;
use crate::server::Server;

on_each_driver!(parts, borders, resumed_by_curl);

const BLOCK: usize = 128 * 1024;

/// Cached whole and copied, cached whole and not copied, and of several blocks.
const LENGTHS: [usize; 4] = [10, 40_000, BLOCK + 1, 5 * BLOCK + 77];

fn site() -> Site {
    let site = Site::new();
    for length in LENGTHS {
        site.file(format!("{length}.bin"), random_bytes(length as u64, length));
    }
    site
}

/// Requests the range `specifier`, which must return the bytes from `start` to `end`.
#[track_caller]
fn check(client: &mut Client, length: usize, specifier: &str, start: usize, end: usize) {
    let response = client.get_with(&format!("/{length}.bin"), &format!("Range: {specifier}\r\n"));
    assert_eq!(response.status, 206, "{specifier} of {length}");
    let range = format!("bytes {start}-{}/{length}", end - 1);
    assert_eq!(response.field("Content-Range"), Some(range.as_str()));
    assert_eq!(response.field("Accept-Ranges"), Some("bytes"));
    assert!(response.field("ETag").is_some());
    assert_same(&response.body, &random_bytes(length as u64, length)[start..end]);
}

fn parts(driver: &'static str) {
    let site = site();
    let server = Server::start(driver, &site.root());
    let mut client = Client::connect(server.address);
    for length in LENGTHS {
        let middle = length / 2;
        let cases = [
            ("bytes=0-0".into(), 0, 1),
            ("bytes=0-4".into(), 0, 5),
            (format!("bytes={middle}-{}", middle + 3), middle, middle + 4),
            (format!("bytes={middle}-"), middle, length),
            ("bytes=0-".into(), 0, length),
            (format!("bytes={}-", length - 1), length - 1, length),
            ("bytes=-1".into(), length - 1, length),
            ("bytes=-7".into(), length - 7, length),
            ("bytes=-99999999".into(), 0, length),
            (format!("bytes=1-{}", u64::MAX), 1, length),
            ("bytes=2-99999999999999999999999".into(), 2, length),
        ];
        for (specifier, start, end) in cases {
            check(&mut client, length, &specifier, start, end);
        }
    }
}

fn borders(driver: &'static str) {
    let site = site();
    let server = Server::start(driver, &site.root());
    let mut client = Client::connect(server.address);
    let length = LENGTHS[3];
    let near = |at: usize| [at - 1, at, at + 1];
    for start in near(BLOCK).into_iter().chain(near(3 * BLOCK)) {
        for end in near(3 * BLOCK).into_iter().chain(near(4 * BLOCK)).chain([start + 1, length]) {
            if start < end {
                check(&mut client, length, &format!("bytes={start}-{}", end - 1), start, end);
            }
        }
    }
    check(&mut client, LENGTHS[2], &format!("bytes={BLOCK}-"), BLOCK, BLOCK + 1);
    check(&mut client, LENGTHS[2], &format!("bytes=0-{}", BLOCK - 1), 0, BLOCK);
    site.file("empty.bin", "");
    assert_eq!(client.get_with("/empty.bin", "Range: bytes=0-\r\n").status, 416);
}

fn resumed_by_curl(driver: &'static str) {
    let site = site();
    let content = random_bytes(9, 20 << 20);
    site.file("big.bin", &content);
    let server = Server::start(driver, &site.root());
    let url = format!("http://{}/big.bin", server.address);
    let path = site.outside().join("download");
    let output = path.to_str().unwrap();
    for had in [0, 1, BLOCK, 7_777_777, content.len() - 1] {
        fs::write(&path, &content[..had]).unwrap();
        curl_output(&["-C", "-", "--output", output, &url]);
        assert_same(&fs::read(&path).unwrap(), &content);
    }
    // Nothing left to fetch: 416, which curl accepts.
    curl(&["-C", "-", "--output", output, &url]);
    assert_same(&fs::read(&path).unwrap(), &content);
    // As in download managers: several parts concurrently.
    let parts: Vec<String> = (0..4).map(|n| format!("{output}.{n}")).collect();
    let mut arguments = vec!["--parallel".to_owned()];
    for (n, part) in parts.iter().enumerate() {
        let range = format!("{}-{}", n * (5 << 20), (n + 1) * (5 << 20) - 1);
        arguments.extend(["--range".into(), range, "--output".into(), part.clone(), url.clone()]);
        arguments.push("--next".into());
    }
    arguments.pop();
    curl_output(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let joined: Vec<u8> = parts.iter().flat_map(|part| fs::read(part).unwrap()).collect();
    assert_same(&joined, &content);
}
