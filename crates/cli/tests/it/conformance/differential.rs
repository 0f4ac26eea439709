//! Differential test of request framing: the same bytes are sent to Phalanx and to other servers.
//!
//! Streams consist of the requests of the conformance table, joined, cut and changed by a seeded generator, and
//! end with a request for a probe file. The test compares framing: the number of answered requests, and whether
//! the last one was recognized. Two servers in a row that disagree about framing enable request smuggling.
//!
//! `PHALANX_SEED` repeats a run, `PHALANX_SECONDS` sets its length. With `PHALANX_COLLECT` the test does not fail
//! and prints every kind of difference with the shortest stream that shows it, for extending the list of known
//! differences.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fastrand::Rng;
use phalanx_testkit::http::find;

use crate::conformance::escape::escape;
use crate::conformance::known;
use crate::conformance::peers::{PEERS, Peer};
use crate::conformance::table;
use crate::conformance::tree::{Facts, PROBE, Tree};
use crate::server::Server;

/// Timeout for further bytes of a response, after which the server counts as waiting for the request.
const QUIET_PERIOD: Duration = Duration::from_millis(400);
/// The same timeout to confirm a difference, since a busy machine is slow.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A server's interpretation of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observation {
    /// Number of answered requests.
    answered: usize,
    /// Whether the next request was rejected as malformed, too large or not understood, which ended the
    /// connection.
    rejected: bool,
    /// Whether the probe request after the stream was answered.
    answers_probe: bool,
    /// Whether the server waits for more bytes.
    is_waiting: bool,
    /// Status of the last response before the probe; zero without any.
    pub(crate) status: u16,
}

pub(crate) fn differential() {
    let seconds = number("PHALANX_SECONDS").unwrap_or(5);
    let seed = number("PHALANX_SEED").unwrap_or(1);
    let tree = Tree::new();
    let server = Server::start("poll", &tree.root());
    let peers: Vec<_> =
        PEERS.iter().filter_map(|name| Some((*name, Peer::start(name, &tree)?))).collect();
    if peers.is_empty() {
        println!("!!! SKIPPED: the differential, for want of other servers");
        return;
    }
    let seeds = seeds();
    let mut rng = Rng::with_seed(seed);
    let (started, mut streams, mut faults, mut known) =
        (Instant::now(), 0_u64, Vec::new(), std::collections::BTreeMap::new());
    let mut collected = DifferenceCounts::default();
    let collects = std::env::var_os("PHALANX_COLLECT").is_some();
    while started.elapsed() < Duration::from_secs(seconds) && faults.len() < 20 {
        let stream = stream(&seeds, &mut rng);
        let mut ours = observe(server.address, &stream, QUIET_PERIOD);
        streams += 1;
        let mut narrower = 0;
        for (name, peer) in &peers {
            let mut theirs = observe(peer.address, &stream, QUIET_PERIOD);
            let is_known = |name: &str, ours: Observation, theirs: Observation, kind| {
                known::reason(&Difference { peer: name, kind, ours, theirs, stream: &stream })
                    .is_some()
            };
            if difference(ours, theirs).is_some_and(|kind| !is_known(name, ours, theirs, kind)) {
                ours = observe(server.address, &stream, TIMEOUT);
                theirs = observe(peer.address, &stream, TIMEOUT);
            }
            let kind = difference(ours, theirs);
            narrower += usize::from(kind == Some("laxer"));
            match kind {
                None => (),
                Some(kind) if collects => {
                    let one = (kind, *name, ours.status, theirs.status);
                    let known = is_known(name, ours, theirs, kind);
                    let (occurrences, shortest) = collected.entry((known, one)).or_default();
                    *occurrences += 1;
                    if shortest.is_empty() || stream.len() < shortest.len() {
                        shortest.clone_from(&stream);
                    }
                }
                Some(kind) if is_known(name, ours, theirs, kind) => {
                    *known.entry((kind, *name)).or_insert(0_u32) += 1;
                }
                Some(kind) => faults.push(format!(
                    "{name} | {kind}: ours {ours:?}, theirs {theirs:?}\n      {}",
                    escape(&stream)
                )),
            }
        }
        // A request that a single server rejects is no concern; one that all reject should not be answered.
        if narrower == peers.len() && narrower >= 3 {
            faults.push(format!("all | alone: ours {ours:?}\n      {}", escape(&stream)));
        }
    }
    for ((known, (kind, name, ours, theirs)), (occurrences, stream)) in collected {
        println!(
            "{known} {name} | {kind} | {ours} | {theirs} {occurrences} times:\n  {}",
            escape(&stream)
        );
    }
    println!("{streams} streams, {} peers, seed {seed}; known differences: {known:?}", peers.len());
    assert!(faults.is_empty(), "{} differ:\n\n{}", faults.len(), faults.join("\n\n"));
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Count and shortest stream, by whether it is known, its kind, the peer and both statuses.
type DifferenceCounts =
    std::collections::BTreeMap<(bool, (&'static str, &'static str, u16, u16)), (u32, Vec<u8>)>;

/// A stream that two servers interpret differently.
pub(crate) struct Difference<'a> {
    pub(crate) peer: &'a str,
    pub(crate) kind: &'static str,
    pub(crate) ours: Observation,
    pub(crate) theirs: Observation,
    pub(crate) stream: &'a [u8],
}

/// The kind of a difference, if there is one.
fn difference(ours: Observation, theirs: Observation) -> Option<&'static str> {
    if (ours.answered, ours.answers_probe) == (theirs.answered, theirs.answers_probe) {
        return None;
    }
    Some(match (ours.answers_probe, theirs.answers_probe) {
        // One server has found the next request where the other sees a body.
        (false, true) if ours.is_waiting => "we-wait",
        (true, false) if theirs.is_waiting => "they-wait",
        // Both reached the end, but disagree on the requests before: the worst kind.
        (true, true) => "other-requests",
        (false, true) if ours.rejected => "stricter",
        (false, true) => "ends-earlier",
        (true, false) if theirs.rejected => "laxer",
        (true, false) => "ends-later",
        // Neither continued: no later request can be smuggled.
        (false, false) => "ends-elsewhere",
    })
}

/// Sends a stream and the probe request, and counts the responses.
fn observe(address: SocketAddr, stream: &[u8], quiet_period: Duration) -> Observation {
    let probe = b"GET /probe.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut connection = TcpStream::connect(address).expect("the server accepts");
    connection.set_read_timeout(Some(quiet_period)).expect("a limit");
    connection.set_write_timeout(Some(quiet_period)).expect("a limit");
    let _ = connection.write_all(&[stream, probe].concat());
    let (mut answers, mut piece) = (Vec::new(), [0; 16 * 1024]);
    let is_waiting = loop {
        match connection.read(&mut piece) {
            Ok(0) => break false,
            Ok(count) => answers.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break false,
            Err(_) => break true,
        }
    };
    let (mut statuses, mut rest) = (Vec::new(), &answers[..]);
    // No file and no error page contains this text.
    while let Some(at) = find(rest, b"HTTP/1.") {
        // The minor version and a space.
        rest = rest.get(at + 9..).unwrap_or_default();
        statuses.extend(rest.get(..3).and_then(|code| std::str::from_utf8(code).ok()));
    }
    statuses.retain(|code| *code != "100");
    let answers_probe = answers.ends_with(PROBE.as_bytes());
    // A response after which the connection continues is one more recognized request, whatever its status.
    let rejection_codes =
        ["400", "403", "408", "411", "413", "414", "417", "431", "500", "501", "505"];
    let rejected =
        !answers_probe && statuses.last().is_some_and(|code| rejection_codes.contains(code));
    let before = statuses.len() - usize::from(answers_probe);
    let status = statuses[..before].last().map_or(0, |code| code.parse().unwrap_or(0));
    Observation {
        answered: statuses.len() - usize::from(rejected),
        rejected,
        answers_probe,
        is_waiting,
        status,
    }
}

/// The requests from which streams are built.
fn seeds() -> Vec<Vec<u8>> {
    let facts = Facts { etag: "\"x\"".to_owned() };
    let cases = table::all(&facts).into_iter().flat_map(|(_, cases)| cases);
    // Large files would only take time.
    cases
        .map(|case| case.send)
        .filter(|send| send.len() < 2000 && !send.is_empty() && find(send, b"large").is_none())
        .collect()
}

fn stream(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut stream = Vec::new();
    for _ in 0..1 + rng.usize(..3) {
        stream.extend_from_slice(&seeds[rng.usize(..seeds.len())]);
    }
    for _ in 0..rng.usize(..3) {
        change(&mut stream, rng);
    }
    stream
}

/// One mutation, of the kinds that have confused servers.
fn change(stream: &mut Vec<u8>, rng: &mut Rng) {
    const LINES: [&[u8]; 10] = [
        b"Content-Length: 5\r\n",
        b"Content-Length: 0\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: identity\r\n",
        b"Connection: close\r\n",
        b"Expect: 100-continue\r\n",
        b" folded\r\n",
        b"Host: b\r\n",
        b"0\r\n\r\n",
        b"5\r\nhello\r\n",
    ];
    const BYTES: &[u8] = b"\r\n\0 \t:,;0159aAfF/\x0b\x7f\xff";
    let at = rng.usize(..stream.len());
    match rng.usize(..5) {
        0 => stream[at] = BYTES[rng.usize(..BYTES.len())],
        1 => stream.insert(at, BYTES[rng.usize(..BYTES.len())]),
        2 => {
            stream.remove(at);
        }
        // Insert a line at the beginning of a line.
        _ => {
            let line = LINES[rng.usize(..LINES.len())];
            let start = find(&stream[at..], b"\n").map_or(stream.len(), |end| at + end + 1);
            stream.splice(start..start, line.iter().copied());
        }
    }
    if stream.is_empty() {
        stream.push(b'G');
    }
}
