//! One request with its expected responses, and the check of the actual one.

use std::io::Read;
use std::time::Duration;

use phalanx::net::Bytes;
use phalanx::sim::Net;
use phalanx_http::Body;
use phalanx_http::client::{Content, parse_response};

use crate::simulation::site::{CHANGING, Conditions, ERROR_PAGE, FILES, History, LISTED};
use crate::simulation::wire::Wire;

/// A request with its expected responses.
pub(crate) struct TestRequest {
    pub(crate) text: String,
    head_only: bool,
    expected: Expected,
    status: u16,
    pub(crate) closes: bool,
    /// Set for the changing file: the time of the request, from which the valid versions follow.
    changing: Option<Duration>,
}

/// Expected content.
enum Expected {
    /// Any.
    Anything,
    /// One of these.
    OneOf(Vec<Bytes>),
    /// A page that contains all of these names.
    Naming(&'static [&'static str]),
}

impl TestRequest {
    pub(crate) fn random(net: &Net, conditions: Conditions, closes: bool) -> Self {
        let mut method = "GET";
        let mut fields = String::new();
        let (path, mut status, mut expected) = match net.draw(12) {
            // If the disk fails, the built-in page is also valid.
            0 if conditions.features.error_page && !conditions.has_faults => {
                ("/missing", 404, Expected::OneOf(FILES[ERROR_PAGE].clone()))
            }
            0 => ("/missing", 404, Expected::Anything),
            1 => ("/sub", 301, Expected::Anything),
            2 => ("/sub/", 200, Expected::OneOf(FILES["/sub/index.html"].clone())),
            3 => ("/link", 200, Expected::OneOf(FILES["/small.txt"].clone())),
            4 if conditions.features.lists => (LISTED.0, 200, Expected::Naming(&LISTED.1)),
            _ => {
                let number = net.draw(FILES.len() as u64) as usize;
                let (path, versions) = FILES.iter().nth(number).unwrap();
                (*path, 200, Expected::OneOf(versions.clone()))
            }
        };
        let head_only = net.draw(6) == 0;
        if head_only {
            method = "HEAD";
        } else if let Expected::OneOf(bodies) = &expected
            && let ([whole], 200) = (&bodies[..], status)
            && whole.len() > 1
            && net.draw(3) == 0
        {
            let from = net.draw(whole.len() as u64);
            let to = from + net.draw(whole.len() as u64 - from);
            fields = format!("Range: bytes={from}-{to}\r\n");
            status = 206;
            expected = Expected::OneOf(vec![whole.slice(from as usize..=to as usize)]);
        } else if net.draw(2) == 0 {
            let coding = ["gzip", "br", "zstd", "zstd, gzip;q=0.5"][net.draw(4) as usize];
            fields = format!("Accept-Encoding: {coding}\r\n");
        }
        if closes {
            fields += "Connection: close\r\n";
        }
        let text = format!("{method} {path} HTTP/1.1\r\nHost: sim\r\n{fields}\r\n");
        let changing = (path == CHANGING).then(|| net.now());
        Self { text, head_only, expected, status, closes, changing }
    }
}

/// State of the connection after a response.
pub(crate) enum AfterResponse {
    More,
    End,
    /// The server has closed the connection, although the client did not ask for it.
    Nothing,
}

/// Reason why the connection is unusable.
#[derive(Debug)]
pub(crate) struct ConnectionLost(pub(crate) String);

/// Reads one response and checks it. `received` keeps the bytes that follow it.
pub(crate) async fn response(
    wire: &mut Wire,
    received: &mut Vec<u8>,
    request: &TestRequest,
    conditions: Conditions,
    (net, history): (&Net, &History),
) -> Result<AfterResponse, ConnectionLost> {
    let head = loop {
        if let Some(head) =
            parse_response(received, request.head_only).expect("a response is well formed")
        {
            break head;
        }
        match wire.read(received).await {
            Ok(1..) => (),
            end => {
                return Err(ConnectionLost(format!(
                    "{end:?} and {} bytes of a head",
                    received.len()
                )));
            }
        }
    };
    let length = match head.content {
        Content::Framed(Body::Length(length)) => length as usize,
        Content::Framed(Body::None) => 0,
        other => panic!("framed by {other:?}"),
    };
    let coding = coding(&received[..head.head]);
    // During shutdown the server may close after any response.
    let closes = request.closes || conditions.shuts_down && !head.keep_alive;
    let is_expected = head.status == request.status && head.keep_alive != closes;
    let failed = match head.status {
        500 => conditions.has_faults,
        // Refused, because work has waited longer than the limit of a server under time pressure.
        503 => conditions.has_faults || conditions.has_short_timeouts,
        408 => conditions.has_short_timeouts,
        _ => false,
    };
    assert!(is_expected || failed, "{} and {} to {}", head.status, head.keep_alive, request.text);
    while received.len() < head.head + length {
        let end = wire.read(received).await;
        let Ok(1..) = end else {
            let fits = |body: &Bytes| body.starts_with(&received[head.head..]);
            let begins = match &request.expected {
                Expected::OneOf(bodies) if coding.is_none() => bodies.iter().any(fits),
                _ => true,
            };
            assert!(failed || begins, "another body begins to {}", request.text);
            let so_far = received.len() - head.head;
            return Err(ConnectionLost(format!("{end:?} and {so_far} of {length} bytes")));
        };
    }
    if is_expected && !request.head_only {
        let body = decode(&received[head.head..head.head + length], coding.as_deref());
        check(request, &body, (net, history));
    }
    received.drain(..head.head + length);
    Ok(match head.keep_alive {
        true => AfterResponse::More,
        // If the server times out while reading a HEAD request, its error response may have a body.
        false if failed => AfterResponse::Nothing,
        false => AfterResponse::End,
    })
}

fn check(request: &TestRequest, body: &[u8], (net, history): (&Net, &History)) {
    match &request.expected {
        Expected::Anything => (),
        Expected::Naming(names) => {
            let page = String::from_utf8_lossy(body);
            assert!(names.iter().all(|name| page.contains(name)), "a listing: {page}");
        }
        Expected::OneOf(bodies) => {
            let version = bodies.iter().position(|expected| expected == body);
            let Some(version) = version else { panic!("another body to {}", request.text) };
            if let Some(requested_at) = request.changing {
                let now = net.now();
                assert!(
                    history.was_valid(version, requested_at, now),
                    "version {version}, {requested_at:?} to {now:?}"
                );
            }
        }
    }
}

/// The content coding in a head.
fn coding(head: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(head);
    head.lines().find_map(|line| line.strip_prefix("Content-Encoding: ")).map(str::to_owned)
}

fn decode(body: &[u8], coding: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    match coding {
        None => out.extend_from_slice(body),
        Some("gzip") => {
            flate2::read::GzDecoder::new(body).read_to_end(&mut out).expect("gzip");
        }
        Some("br") => brotli::BrotliDecompress(&mut { body }, &mut out).expect("brotli"),
        Some("zstd") => out = zstd::stream::decode_all(body).expect("zstd"),
        Some(other) => panic!("coded by {other}"),
    }
    out
}
