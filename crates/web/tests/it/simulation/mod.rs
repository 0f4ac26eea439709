//! Simulation of the server. Clients pipeline, split their requests anywhere, request ranges and encodings,
//! send invalid data, stall and disconnect, with and without TLS, while network and disk fail. Every response
//! must be correct. `proxy.rs` simulates the reverse proxy, `quic.rs` HTTP/3.

mod moving;
mod multiplexed;
mod proxied_request;
mod proxy;
mod quic;
mod site;
mod test_request;
pub(crate) mod wire;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::{self, Faults, Net, World};
use site::{CHANGING, Conditions, FILES, Features, History, address};
use test_request::{AfterResponse, ConnectionLost, TestRequest, response};
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
async fn run_client(net: Net, conditions: Conditions, history: Rc<History>) {
    let Ok(mut wire) = Wire::connect(&net, address(), conditions.features.tls).await else {
        // Without TLS no handshake can fail.
        let handshake_may_fail =
            conditions.features.tls && (conditions.has_faults || conditions.has_short_timeouts);
        assert!(
            conditions.shuts_down || handshake_may_fail,
            "the server listens until it is asked to finish"
        );
        return;
    };
    let mut received = Vec::new();
    'all: for round in 0..1 + net.draw(3) {
        let count = 1 + net.draw(4);
        let ends = net.draw(3) == 0;
        let requests: Vec<_> = (0..count)
            .map(|n| TestRequest::random(&net, conditions, ends && n + 1 == count))
            .collect();
        let text: String = requests.iter().map(|request| &*request.text).collect();
        let sent = send(&net, &mut wire, text.as_bytes()).await;
        assert!(
            sent || conditions.has_faults || conditions.has_short_timeouts,
            "cut off while asking"
        );
        for request in &requests {
            match response(&mut wire, &mut received, request, conditions, (&net, &history)).await {
                Ok(AfterResponse::More) => (),
                Ok(AfterResponse::End) if request.closes => break 'all,
                Ok(AfterResponse::End) => return,
                Ok(AfterResponse::Nothing) => return,
                Err(ConnectionLost(reason)) => {
                    let may = conditions.has_faults || conditions.has_short_timeouts;
                    assert!(
                        may,
                        "no answer in round {round}: {reason} to {} {conditions:?}",
                        request.text
                    );
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
        let end = wire.read(&mut received).await;
        // Over TLS the client's close may cross the server's, which no longer reads it.
        let crosses = conditions.has_faults || conditions.shuts_down || conditions.features.tls;
        let ends = matches!(end, Ok(0)) || end.is_err() && crosses;
        let is_clean = received.is_empty() && ends;
        let text = String::from_utf8_lossy(&received);
        assert!(is_clean, "after the last answer: {end:?}, {text}");
    }
}

/// A misbehaving client: it disconnects early or sends an invalid request.
async fn run_misbehaving_client(net: Net, conditions: Conditions) {
    // On a TLS port this is an invalid handshake as well.
    let Ok(client) = net.connect(address()).await else { return };
    let mut wire = Wire::Plain(client);
    let request = TestRequest::random(&net, conditions, false);
    let bytes = match net.draw(4) {
        0 => "GET / HTTP/9.9\r\n\r\n".to_owned(),
        1 => "\0\0\0\0\r\n\r\n".to_owned(),
        2 => request.text.repeat(9),
        _ => request.text[..net.draw(request.text.len() as u64) as usize].to_owned(),
    };
    send(&net, &mut wire, bytes.as_bytes()).await;
    let mut received = Vec::new();
    for _ in 0..net.draw(4) {
        if net.draw(2) == 0 || !matches!(wire.read(&mut received).await, Ok(1..)) {
            break;
        }
    }
    if net.draw(2) == 0 {
        let Wire::Plain(client) = wire else { unreachable!("made so") };
        client.reset();
    }
}

fn web(world: &mut World) {
    let (has_faults, has_short_timeouts) = (world.draw(2) == 0, world.draw(2) == 0);
    if has_faults {
        world.set_faults(Faults::random(world.seed()));
    }
    let shuts_down = world.draw(4) == 0;
    let features = Features::random(world);
    let conditions = Conditions {
        has_faults,
        has_short_timeouts: has_short_timeouts || shuts_down,
        shuts_down,
        features,
    };
    if shuts_down {
        let net = world.net();
        world.client(async move {
            net.sleep(Duration::from_micros(net.draw(20_000))).await;
            net.drain();
        });
    }
    site::write_files(world);
    let max_age = site::serve(world, conditions);
    let history = Rc::new(History { write_times: RefCell::new(vec![Duration::ZERO]), max_age });
    for _ in 0..1 + world.draw(4) {
        world.client(run_client(world.net(), conditions, history.clone()));
    }
    if world.draw(2) == 0 {
        world.client(run_misbehaving_client(world.net(), conditions));
    }
    if world.draw(2) == 0 {
        let net = world.net();
        world.client(async move {
            // The first version is already there.
            for version in &FILES[CHANGING][1..] {
                net.sleep(Duration::from_millis(net.draw(2000))).await;
                net.write_file(CHANGING, version.clone());
                history.write_times.borrow_mut().push(net.now());
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
