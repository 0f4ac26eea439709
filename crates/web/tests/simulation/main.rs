//! The server in simulation: clients that pipeline, cut their requests anywhere, ask for parts, err,
//! dawdle and vanish, over a network and a disk that fail. Whatever is answered is right.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use phalanx::net::Listener;
use phalanx::sim::{self, Client, Faults, Net, World};
use phalanx::{Bytes, Graph};
use phalanx_http::Body;
use phalanx_http::client::{Content, parse_response};
use phalanx_web::{Config, Server};

/// Longer than anything takes, however time jumps.
const LONG: Duration = Duration::from_secs(1 << 30);

/// What the disk holds, by its path, in all of its versions.
type Files = BTreeMap<&'static str, Vec<Bytes>>;

/// What a run is like for its clients.
#[derive(Clone, Copy)]
struct Weather {
    /// The network or the disk fails.
    fails: bool,
    /// The server waits for nobody for long, or is asked to finish while its clients are there.
    hurries: bool,
    /// It is asked so.
    finishes: bool,
}

/// When the changing file got each of its versions, and how old a cached one may be.
struct History {
    written: RefCell<Vec<Duration>>,
    stale: Duration,
}

impl History {
    /// Whether the file had this version at some moment from `begun` until `now`, or so shortly before
    /// that the cache need not have looked.
    fn had(&self, version: usize, begun: Duration, now: Duration) -> bool {
        let written = self.written.borrow();
        let replaced = written.get(version + 1);
        written.get(version).is_some_and(|from| *from <= now)
            && replaced.is_none_or(|until| *until + self.stale >= begun)
    }
}

/// From the moment at which a file is looked at until it is in the cache: what the simulated disk and
/// the queues take.
const LOADING: Duration = Duration::from_millis(250);

fn address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 80))
}

fn pattern(length: usize, from: usize) -> Bytes {
    (from..from + length).map(|n| (n ^ (n >> 8)) as u8).collect()
}

/// Made once: a debug build is slow at it.
static FILES: LazyLock<Files> = LazyLock::new(|| {
    let mut files = Files::new();
    files.insert("/small.txt", vec![pattern(100, 0)]);
    files.insert("/empty", vec![Bytes::new()]);
    files.insert("/whole.bin", vec![pattern(40_000, 3)]);
    files.insert("/blocks.bin", vec![pattern(300_001, 5)]);
    files.insert("/sub/index.html", vec![pattern(900, 7)]);
    files.insert("/changing", (0..3).map(|n| pattern(500 + 100 * n, 11 * n)).collect());
    files
});

/// Returns how old what is cached may be.
fn serve(world: &mut World, hurries: bool) -> Duration {
    let mut config = Config::new();
    config.runtime.processors = world.processors();
    config.hash_seed = Some(world.seed());
    config.cache_bytes = [0, 100_000, 10 << 20][world.draw(3) as usize];
    config.open_files = world.draw(3) as usize;
    if !hurries {
        let timeouts = &mut config.timeouts;
        (timeouts.request, timeouts.idle, timeouts.send) = (LONG, LONG, LONG);
    }
    config.hosts[0].symlinks = phalanx_web::Symlinks::Followed;
    if world.draw(4) == 0 {
        config.timeouts.revalidate = Duration::from_millis(world.draw(3));
    }
    let stale = config.timeouts.revalidate + LOADING;
    let mut graph = Graph::new();
    let server = Server::declare(&mut graph, &config, [world.root()]);
    let listeners = RefCell::new(world.listen(address()));
    world.program(graph, move |_| {
        let listener = listeners.borrow_mut().pop().expect("one for each");
        Ok(server.accept([Listener::new(listener)?])?)
    });
    stale
}

/// One request, and what may be answered to it.
struct Ask {
    text: String,
    head_only: bool,
    /// The body, in all versions; none where it does not matter.
    bodies: Option<Vec<Bytes>>,
    status: u16,
    closes: bool,
    /// Its versions are those of the changing file, and it was asked for at this time.
    changing: Option<Duration>,
}

impl Ask {
    fn drawn(net: &Net, closes: bool) -> Self {
        let mut method = "GET";
        let mut fields = String::new();
        let (path, status, mut bodies) = match net.draw(10) {
            0 => ("/missing", 404, None),
            1 => ("/sub", 301, None),
            2 => ("/sub/", 200, Some(FILES["/sub/index.html"].clone())),
            3 => ("/link", 200, Some(FILES["/small.txt"].clone())),
            _ => {
                let (path, versions) =
                    FILES.iter().nth(net.draw(FILES.len() as u64) as usize).unwrap();
                (*path, 200, Some(versions.clone()))
            }
        };
        let mut status = status;
        let head_only = net.draw(6) == 0;
        if head_only {
            method = "HEAD";
        } else if let Some([whole]) = bodies.as_deref()
            && whole.len() > 1
            && net.draw(3) == 0
        {
            let from = net.draw(whole.len() as u64);
            let to = from + net.draw(whole.len() as u64 - from);
            fields = format!("Range: bytes={from}-{to}\r\n");
            status = 206;
            bodies = Some(vec![whole.slice(from as usize..=to as usize)]);
        }
        if closes {
            fields += "Connection: close\r\n";
        }
        let text = format!("{method} {path} HTTP/1.1\r\nHost: sim\r\n{fields}\r\n");
        let changing = (path == "/changing").then(|| net.now());
        Self { text, head_only, bodies, status, closes, changing }
    }
}

/// What comes after a response.
enum After {
    More,
    End,
    /// The connection is closed, for a reason of the server's own.
    Nothing,
}

/// Why there is no more to be had from a connection.
#[derive(Debug)]
struct Gone;

/// Reads one response and looks whether it is right. `got` keeps what comes after it.
async fn response(
    client: &mut Client,
    got: &mut Vec<u8>,
    ask: &Ask,
    weather: Weather,
    (net, history): (&Net, &History),
) -> Result<After, Gone> {
    let head = loop {
        if let Some(head) = parse_response(got, ask.head_only).expect("a response is well formed") {
            break head;
        }
        let Ok(1..) = client.read(got).await else { return Err(Gone) };
    };
    let length = match head.content {
        Content::Framed(Body::Length(length)) => length as usize,
        Content::Framed(Body::None) => 0,
        other => panic!("framed by {other:?}"),
    };
    // Asked to finish, the server says of any answer that it is the last.
    let closes = ask.closes || weather.finishes && !head.keep_alive;
    let right = head.status == ask.status && head.keep_alive != closes;
    let failed = match head.status {
        500 | 503 => weather.fails,
        408 => weather.hurries,
        _ => false,
    };
    assert!(right || failed, "{} and {} to {}", head.status, head.keep_alive, ask.text);
    while got.len() < head.head + length {
        let Ok(1..) = client.read(got).await else {
            let fits = |body: &Bytes| body.starts_with(&got[head.head..]);
            assert!(failed || ask.bodies.as_ref().is_none_or(|bodies| bodies.iter().any(fits)));
            return Err(Gone);
        };
    }
    if right
        && !ask.head_only
        && let Some(bodies) = &ask.bodies
    {
        let body = &got[head.head..head.head + length];
        let version = bodies.iter().position(|right| right == body);
        let Some(version) = version else { panic!("another body to {}", ask.text) };
        if let Some(begun) = ask.changing {
            let now = net.now();
            assert!(history.had(version, begun, now), "version {version}, {begun:?} to {now:?}");
        }
    }
    got.drain(..head.head + length);
    Ok(match head.keep_alive {
        true => After::More,
        // An impatient server answers a HEAD that it has not read to its end as if it were a GET.
        false if failed => After::Nothing,
        false => After::End,
    })
}

/// Sends `bytes` in pieces, with pauses.
async fn send(net: &Net, client: &mut Client, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let piece = match net.draw(3) {
            0 => bytes.len(),
            _ => 1 + net.draw(bytes.len() as u64) as usize,
        };
        if client.write_all(&bytes[..piece]).await.is_err() {
            return false;
        }
        bytes = &bytes[piece..];
        net.sleep(Duration::from_micros(net.draw(5000))).await;
    }
    true
}

/// One connection of a client that keeps to the rules.
async fn converse(net: Net, weather: Weather, history: Rc<History>) {
    let Ok(mut client) = net.connect(address()).await else {
        assert!(weather.finishes, "the server listens until it is asked to finish");
        return;
    };
    let mut got = Vec::new();
    'all: for round in 0..1 + net.draw(3) {
        let count = 1 + net.draw(4);
        let ends = net.draw(3) == 0;
        let asks: Vec<_> = (0..count).map(|n| Ask::drawn(&net, ends && n + 1 == count)).collect();
        let text: String = asks.iter().map(|ask| &*ask.text).collect();
        let sent = send(&net, &mut client, text.as_bytes()).await;
        assert!(sent || weather.fails || weather.hurries, "cut off while asking");
        for ask in &asks {
            match response(&mut client, &mut got, ask, weather, (&net, &history)).await {
                Ok(After::More) => (),
                Ok(After::End) if ask.closes => break 'all,
                Ok(After::End) => return,
                Ok(After::Nothing) => return,
                Err(Gone) => {
                    assert!(weather.fails || weather.hurries, "no answer in round {round}");
                    return;
                }
            }
        }
        if net.draw(4) == 0 {
            net.sleep(Duration::from_millis(net.draw(3000))).await;
        }
    }
    if net.draw(2) == 0 {
        let _ = client.shutdown(Shutdown::Write);
        let end = client.read(&mut got).await;
        let ends = matches!(end, Ok(0)) || end.is_err() && (weather.fails || weather.finishes);
        let well = got.is_empty() && ends;
        let text = String::from_utf8_lossy(&got);
        assert!(well, "after the last answer: {end:?}, {text}");
    }
}

/// One that does not: it goes away in the middle, or says what is no request.
async fn misbehave(net: Net) {
    let Ok(mut client) = net.connect(address()).await else { return };
    let ask = Ask::drawn(&net, false);
    let bytes = match net.draw(4) {
        0 => "GET / HTTP/9.9\r\n\r\n".to_owned(),
        1 => "\0\0\0\0\r\n\r\n".to_owned(),
        2 => ask.text.repeat(9),
        _ => ask.text[..net.draw(ask.text.len() as u64) as usize].to_owned(),
    };
    send(&net, &mut client, bytes.as_bytes()).await;
    let mut got = Vec::new();
    for _ in 0..net.draw(4) {
        if net.draw(2) == 0 || !matches!(client.read(&mut got).await, Ok(1..)) {
            break;
        }
    }
    if net.draw(2) == 0 {
        client.reset();
    }
}

fn web(world: &mut World) {
    let (fails, hurries) = (world.draw(2) == 0, world.draw(2) == 0);
    if fails {
        world.set_faults(Faults::drawn(world.seed()));
    }
    let finishes = world.draw(4) == 0;
    let weather = Weather { fails, hurries: hurries || finishes, finishes };
    if finishes {
        let net = world.net();
        world.client(async move {
            net.sleep(Duration::from_micros(net.draw(20_000))).await;
            net.drain();
        });
    }
    for (path, versions) in &*FILES {
        world.file(path, versions[0].clone());
    }
    world.link("/link", "small.txt");
    let stale = serve(world, hurries);
    let history = Rc::new(History { written: RefCell::new(vec![Duration::ZERO]), stale });
    for _ in 0..1 + world.draw(4) {
        world.client(converse(world.net(), weather, history.clone()));
    }
    if world.draw(2) == 0 {
        world.client(misbehave(world.net()));
    }
    if world.draw(2) == 0 {
        let net = world.net();
        world.client(async move {
            // The first is there already.
            for version in &FILES["/changing"][1..] {
                net.sleep(Duration::from_millis(net.draw(2000))).await;
                net.write_file("/changing", version.clone());
                history.written.borrow_mut().push(net.now());
            }
        });
    }
}

#[test]
fn whatever_is_answered_is_right() {
    let seeds = std::env::var("PHALANX_SEEDS").ok().and_then(|text| text.parse().ok());
    sim::explore(seeds.unwrap_or(1000), web);
}

#[test]
fn the_same_seed_goes_the_same_way() {
    for seed in 1000..1010 {
        assert_eq!(sim::run(seed, web), sim::run(seed, web));
    }
}
