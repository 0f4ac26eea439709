//! One request with its expected responses, and the check of the actual one.

use std::io::Read;
use std::time::Duration;

use phalanx::net::Bytes;
use phalanx::sim::Net;
use phalanx_http::Body;
use phalanx_http::client::{Content, parse_response};

use crate::simulation::site::{CHANGING, ERROR_PAGE, FILES, History, LISTED, Weather};
use crate::simulation::wire::Wire;

/// A request with its expected responses.
pub(crate) struct Ask {
    pub(crate) text: String,
    head_only: bool,
    wanted: Wanted,
    status: u16,
    pub(crate) closes: bool,
    /// Set for the changing file: the time of the request, from which the valid versions follow.
    changing: Option<Duration>,
}

/// Expected content.
enum Wanted {
    /// Any.
    Anything,
    /// One of these.
    OneOf(Vec<Bytes>),
    /// A page that contains all of these names.
    Naming(&'static [&'static str]),
}

impl Ask {
    pub(crate) fn drawn(net: &Net, weather: Weather, closes: bool) -> Self {
        let mut method = "GET";
        let mut fields = String::new();
        let (path, mut status, mut wanted) = match net.draw(12) {
            // If the disk fails, the built-in page is also valid.
            0 if weather.features.error_page && !weather.fails => {
                ("/missing", 404, Wanted::OneOf(FILES[ERROR_PAGE].clone()))
            }
            0 => ("/missing", 404, Wanted::Anything),
            1 => ("/sub", 301, Wanted::Anything),
            2 => ("/sub/", 200, Wanted::OneOf(FILES["/sub/index.html"].clone())),
            3 => ("/link", 200, Wanted::OneOf(FILES["/small.txt"].clone())),
            4 if weather.features.lists => (LISTED.0, 200, Wanted::Naming(&LISTED.1)),
            _ => {
                let number = net.draw(FILES.len() as u64) as usize;
                let (path, versions) = FILES.iter().nth(number).unwrap();
                (*path, 200, Wanted::OneOf(versions.clone()))
            }
        };
        let head_only = net.draw(6) == 0;
        if head_only {
            method = "HEAD";
        } else if let Wanted::OneOf(bodies) = &wanted
            && let ([whole], 200) = (&bodies[..], status)
            && whole.len() > 1
            && net.draw(3) == 0
        {
            let from = net.draw(whole.len() as u64);
            let to = from + net.draw(whole.len() as u64 - from);
            fields = format!("Range: bytes={from}-{to}\r\n");
            status = 206;
            wanted = Wanted::OneOf(vec![whole.slice(from as usize..=to as usize)]);
        } else if net.draw(2) == 0 {
            let coding = ["gzip", "br", "zstd", "zstd, gzip;q=0.5"][net.draw(4) as usize];
            fields = format!("Accept-Encoding: {coding}\r\n");
        }
        if closes {
            fields += "Connection: close\r\n";
        }
        let text = format!("{method} {path} HTTP/1.1\r\nHost: sim\r\n{fields}\r\n");
        let changing = (path == CHANGING).then(|| net.now());
        Self { text, head_only, wanted, status, closes, changing }
    }
}

/// State of the connection after a response.
pub(crate) enum After {
    More,
    End,
    /// The server has closed the connection, although the client did not ask for it.
    Nothing,
}

/// Reason why the connection is unusable.
#[derive(Debug)]
pub(crate) struct Gone(pub(crate) String);

/// Reads one response and checks it. `got` keeps the bytes that follow it.
pub(crate) async fn response(
    wire: &mut Wire,
    got: &mut Vec<u8>,
    ask: &Ask,
    weather: Weather,
    (net, history): (&Net, &History),
) -> Result<After, Gone> {
    let head = loop {
        if let Some(head) = parse_response(got, ask.head_only).expect("a response is well formed") {
            break head;
        }
        match wire.read(got).await {
            Ok(1..) => (),
            end => return Err(Gone(format!("{end:?} and {} bytes of a head", got.len()))),
        }
    };
    let length = match head.content {
        Content::Framed(Body::Length(length)) => length as usize,
        Content::Framed(Body::None) => 0,
        other => panic!("framed by {other:?}"),
    };
    let coding = coding(&got[..head.head]);
    // During shutdown the server may close after any response.
    let closes = ask.closes || weather.finishes && !head.keep_alive;
    let right = head.status == ask.status && head.keep_alive != closes;
    let failed = match head.status {
        500 => weather.fails,
        // Refused, because work has waited longer than the limit of a server under time pressure.
        503 => weather.fails || weather.hurries,
        408 => weather.hurries,
        _ => false,
    };
    assert!(right || failed, "{} and {} to {}", head.status, head.keep_alive, ask.text);
    while got.len() < head.head + length {
        let end = wire.read(got).await;
        let Ok(1..) = end else {
            let fits = |body: &Bytes| body.starts_with(&got[head.head..]);
            let begins = match &ask.wanted {
                Wanted::OneOf(bodies) if coding.is_none() => bodies.iter().any(fits),
                _ => true,
            };
            assert!(failed || begins, "another body begins to {}", ask.text);
            let so_far = got.len() - head.head;
            return Err(Gone(format!("{end:?} and {so_far} of {length} bytes")));
        };
    }
    if right && !ask.head_only {
        let body = decoded(&got[head.head..head.head + length], coding.as_deref());
        check(ask, &body, (net, history));
    }
    got.drain(..head.head + length);
    Ok(match head.keep_alive {
        true => After::More,
        // If the server times out while reading a HEAD request, its error response may have a body.
        false if failed => After::Nothing,
        false => After::End,
    })
}

fn check(ask: &Ask, body: &[u8], (net, history): (&Net, &History)) {
    match &ask.wanted {
        Wanted::Anything => (),
        Wanted::Naming(names) => {
            let page = String::from_utf8_lossy(body);
            assert!(names.iter().all(|name| page.contains(name)), "a listing: {page}");
        }
        Wanted::OneOf(bodies) => {
            let version = bodies.iter().position(|right| right == body);
            let Some(version) = version else { panic!("another body to {}", ask.text) };
            if let Some(begun) = ask.changing {
                let now = net.now();
                assert!(
                    history.had(version, begun, now),
                    "version {version}, {begun:?} to {now:?}"
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

fn decoded(body: &[u8], coding: Option<&str>) -> Vec<u8> {
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
