//! Multipart responses (RFC 9110 §14.6, §15.3.7.2), for files in every kind of cache.

use phalanx_testkit::bytes::{assert_same, random_bytes};
use phalanx_testkit::http::{Client, Response};
use phalanx_testkit::site::Site;

use crate::on_each_driver;
use crate::server::Server;

on_each_driver!(several_parts, a_boundary_for_each_file);

const BLOCK: usize = 128 * 1024;
const LENGTHS: [usize; 3] = [300, 40_000, 5 * BLOCK + 77];

fn site() -> Site {
    let site = Site::new();
    for length in LENGTHS {
        site.file(format!("{length}.txt"), random_bytes(length as u64, length));
    }
    site
}

/// Splits a body at the boundary of its head: the range and bytes of each part.
#[track_caller]
fn parts(response: &Response, length: usize) -> Vec<(usize, Vec<u8>)> {
    assert_eq!(response.status, 206);
    assert_eq!(response.field("Content-Range"), None, "it is in the parts (15.3.7.2)");
    let kind = response.field("Content-Type").unwrap();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").expect("several parts");
    let delimiter = format!("\r\n--{boundary}");
    let body = [b"\r\n", &response.body[..]].concat();
    let find = |bytes: &[u8], needle: &[u8]| {
        bytes.windows(needle.len()).position(|found| found == needle).expect("where it should be")
    };
    let mut rest = &body[delimiter.len()..];
    assert!(body.starts_with(delimiter.as_bytes()));
    let mut parts = Vec::new();
    while rest != b"--\r\n" {
        let fields = find(rest, b"\r\n\r\n");
        let lines = std::str::from_utf8(&rest[..fields]).unwrap();
        assert!(lines.contains("\r\nContent-Type: text/plain; charset=utf-8"), "{lines}");
        let range = lines.split("\r\nContent-Range: bytes ").nth(1).unwrap();
        let (range, full) = range.split_once('/').unwrap();
        assert_eq!(full.parse(), Ok(length));
        let (start, last) = range.split_once('-').unwrap();
        let (start, last): (usize, usize) = (start.parse().unwrap(), last.parse().unwrap());
        rest = &rest[fields + 4..];
        parts.push((start, rest[..=last - start].to_vec()));
        rest = rest[last - start + 1..].strip_prefix(delimiter.as_bytes()).expect("a delimiter");
    }
    parts
}

fn several_parts(driver: &'static str) {
    let site = site();
    let server = Server::start(driver, &site.root());
    let mut client = Client::connect(server.address);
    for length in LENGTHS {
        let content = random_bytes(length as u64, length);
        let middle = length / 2;
        let cases = [
            vec![(0, 1), (length - 1, length)],
            vec![(middle, length), (0, 7)],
            vec![(5, 9), (middle, middle + 100), (20, 30), (0, 2)],
            (0..16).map(|n| (n * (length / 16), n * (length / 16) + 3)).collect(),
        ];
        for case in cases {
            let list: Vec<_> = case.iter().map(|(a, b)| format!("{a}-{}", b - 1)).collect();
            let lines = format!("Range: bytes={}\r\n", list.join(", "));
            let path = format!("/{length}.txt");
            let response = client.get_with(&path, &lines);
            let found = parts(&response, length);
            assert_eq!(found.len(), case.len());
            for ((start, bytes), (a, b)) in found.iter().zip(&case) {
                assert_eq!(start, a);
                assert_same(bytes, &content[*a..*b]);
            }
            let head = client.head_with(&path, &lines);
            assert_eq!(head.status, 200, "ranges apply to GET (14.2)");
        }
    }
}

/// The boundary differs between files, and is constant for one.
fn a_boundary_for_each_file(driver: &'static str) {
    let site = site();
    let server = Server::start(driver, &site.root());
    let boundary = |path: &str| {
        let url = format!("http://{}{path}", server.address);
        let arguments = ["--range", "0-1,5-6", "--output", "/dev/null"];
        let mut arguments = arguments.to_vec();
        arguments.extend(["--write-out", "%{http_code} %{content_type}", &url]);
        phalanx_testkit::process::curl_output(&arguments)
    };
    let first = boundary("/300.txt");
    assert!(first.starts_with("206 multipart/byteranges; boundary="), "{first}");
    assert_eq!(first, boundary("/300.txt"));
    assert_ne!(first, boundary("/40000.txt"));
}
