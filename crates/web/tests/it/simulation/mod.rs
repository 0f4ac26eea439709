//! Simulation of the server. Clients pipeline, split their requests anywhere, request ranges and encodings,
//! send invalid data, stall and disconnect, with and without TLS, while network and disk fail. Every response
//! must be correct. `proxy.rs` simulates the reverse proxy, `quic.rs` HTTP/3.

mod ask;
mod moving;
mod multiplexed;
mod proxy;
mod quic;
mod site;
pub(crate) mod wire;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use ask::{After, Ask, Gone, response};
use phalanx::sim::{self, Faults, Net, World};
use site::{CHANGING, FILES, Features, History, Weather, address};
use wire::Wire;

/// Sends `bytes` in pieces with pauses.
async fn send(net: &Net, wire: &mut Wire, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let piece = match net.draw(3) {
            0 => bytes.len(),
            _ => 1 + net.draw(bytes.len() as u64) as usize,
        };
        if wire.write_all(&bytes[..piece]).await.is_err() {
            return false;
        }
        bytes = &bytes[piece..];
        net.sleep(Duration::from_micros(net.draw(5000))).await;
    }
    true
}

/// A connection of a well-behaved client.
async fn converse(net: Net, weather: Weather, history: Rc<History>) {
    let Ok(mut wire) = Wire::connect(&net, address(), weather.features.tls).await else {
        // Without TLS no handshake can fail.
        let shakes = weather.features.tls && (weather.fails || weather.hurries);
        assert!(weather.finishes || shakes, "the server listens until it is asked to finish");
        return;
    };
    let mut got = Vec::new();
    'all: for round in 0..1 + net.draw(3) {
        let count = 1 + net.draw(4);
        let ends = net.draw(3) == 0;
        let asks: Vec<_> =
            (0..count).map(|n| Ask::drawn(&net, weather, ends && n + 1 == count)).collect();
        let text: String = asks.iter().map(|ask| &*ask.text).collect();
        let sent = send(&net, &mut wire, text.as_bytes()).await;
        assert!(sent || weather.fails || weather.hurries, "cut off while asking");
        for ask in &asks {
            match response(&mut wire, &mut got, ask, weather, (&net, &history)).await {
                Ok(After::More) => (),
                Ok(After::End) if ask.closes => break 'all,
                Ok(After::End) => return,
                Ok(After::Nothing) => return,
                Err(Gone(why)) => {
                    let may = weather.fails || weather.hurries;
                    assert!(may, "no answer in round {round}: {why} to {} {weather:?}", ask.text);
                    return;
                }
            }
        }
        if net.draw(4) == 0 {
            net.sleep(Duration::from_millis(net.draw(3000))).await;
        }
    }
    if net.draw(2) == 0 {
        wire.finish().await;
        let end = wire.read(&mut got).await;
        // Over TLS the client's close may cross the server's, which no longer reads it.
        let crosses = weather.fails || weather.finishes || weather.features.tls;
        let ends = matches!(end, Ok(0)) || end.is_err() && crosses;
        let well = got.is_empty() && ends;
        let text = String::from_utf8_lossy(&got);
        assert!(well, "after the last answer: {end:?}, {text}");
    }
}

/// A misbehaving client: it disconnects early or sends an invalid request.
async fn misbehave(net: Net, weather: Weather) {
    // On a TLS port this is an invalid handshake as well.
    let Ok(client) = net.connect(address()).await else { return };
    let mut wire = Wire::Plain(client);
    let ask = Ask::drawn(&net, weather, false);
    let bytes = match net.draw(4) {
        0 => "GET / HTTP/9.9\r\n\r\n".to_owned(),
        1 => "\0\0\0\0\r\n\r\n".to_owned(),
        2 => ask.text.repeat(9),
        _ => ask.text[..net.draw(ask.text.len() as u64) as usize].to_owned(),
    };
    send(&net, &mut wire, bytes.as_bytes()).await;
    let mut got = Vec::new();
    for _ in 0..net.draw(4) {
        if net.draw(2) == 0 || !matches!(wire.read(&mut got).await, Ok(1..)) {
            break;
        }
    }
    if net.draw(2) == 0 {
        let Wire::Plain(client) = wire else { unreachable!("made so") };
        client.reset();
    }
}

fn web(world: &mut World) {
    let (fails, hurries) = (world.draw(2) == 0, world.draw(2) == 0);
    if fails {
        world.set_faults(Faults::drawn(world.seed()));
    }
    let finishes = world.draw(4) == 0;
    let features = Features::drawn(world);
    let weather = Weather { fails, hurries: hurries || finishes, finishes, features };
    if finishes {
        let net = world.net();
        world.client(async move {
            net.sleep(Duration::from_micros(net.draw(20_000))).await;
            net.drain();
        });
    }
    site::fill(world);
    let stale = site::serve(world, weather);
    let history = Rc::new(History { written: RefCell::new(vec![Duration::ZERO]), stale });
    for _ in 0..1 + world.draw(4) {
        world.client(converse(world.net(), weather, history.clone()));
    }
    if world.draw(2) == 0 {
        world.client(misbehave(world.net(), weather));
    }
    if world.draw(2) == 0 {
        let net = world.net();
        world.client(async move {
            // The first version is already there.
            for version in &FILES[CHANGING][1..] {
                net.sleep(Duration::from_millis(net.draw(2000))).await;
                net.write_file(CHANGING, version.clone());
                history.written.borrow_mut().push(net.now());
            }
        });
    }
}

#[test]
fn every_response_is_correct() {
    sim::explore(1000, web);
}

#[test]
fn a_seed_is_reproducible() {
    for seed in 1000..1010 {
        assert_eq!(sim::run(seed, web), sim::run(seed, web));
    }
}

/// Every simulation checks that the server makes no call that it does not declare. This is the converse: the calls that
/// are declared and do not occur, because these runs have no HTTP/2, HTTP/3, passwords, other servers, limits and reloads.
#[test]
fn declared_calls_occur() {
    let expected = [
        "\"control\" invokes \"certificates\"",
        "\"control\" invokes \"control\"",
        "\"control\" invokes \"passwords\"",
        "\"control\" invokes \"refusals\"",
        "\"control\" invokes \"streams\"",
        "\"control\" invokes \"upstream\"",
        "\"network\" invokes \"network\"",
        "\"network\" invokes \"refusals\"",
        "\"streams\" invokes \"certificates\"",
        "\"streams\" invokes \"control\"",
        "\"streams\" invokes \"handshakes\"",
        "\"streams\" invokes \"log\"",
        "\"streams\" invokes \"network\"",
        "\"streams\" invokes \"streams\"",
        "\"upstream\" invokes \"network\"",
        "\"upstream\" invokes \"resolver\"",
        "\"upstream\" invokes \"upstream\"",
    ];
    assert_eq!(sim::unobserved_calls(0..100, web), expected);
}
