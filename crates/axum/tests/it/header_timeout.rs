//! The limit on connections without a request, in simulations, whose time is virtual.

use std::future::Future;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use phalanx::Graph;
use phalanx::sim::{self, Client, Faults, Net};
use phalanx_axum::Options;

/// The default, and the time in which a connection ends then.
const LIMIT: Duration = Duration::from_secs(75);
const GRACE_PERIOD: Duration = Duration::from_secs(2);
/// The content of `/long`: more than the network and hyper hold.
const LENGTH: usize = 300_000;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
/// Of HTTP/2, with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Serves some routes with `options`, and connects with `client`.
fn simulate<C: Future<Output = ()> + 'static>(
    options: impl Fn(Options) -> Options,
    client: impl Fn(Client, Net) -> C + Copy + 'static,
) {
    sim::explore(3, |world| {
        let address = "10.0.0.1:80".parse().unwrap();
        world.set_faults(Faults { immediate: 500, ..Faults::NONE });
        world.advance_only_when_idle();
        let mut graph = Graph::new();
        let http = options(Options::new()).declare(&mut graph);
        let slow = || async {
            phalanx::sleep(4 * LIMIT).await;
            "done"
        };
        let app = Router::new()
            .route("/", get(|| async { "done" }))
            .route("/slow", get(slow))
            .route("/long", get(|| async { "x".repeat(LENGTH) }));
        let endpoints = world.listen(address);
        world.program(graph, move |start| {
            http.serve(endpoints.listener(start)?, app.clone())?;
            Ok(())
        });
        let net = world.net();
        world.client(async move {
            let connected = net.connect(address).await.unwrap();
            client(connected, net).await;
        });
    });
}

/// Waits for the end of the connection, and checks when it comes: after the limit, counted from `since`.
async fn read_to_end(client: &mut Client, net: &Net, since: Duration) -> Vec<u8> {
    let mut received = Vec::new();
    while client.read(&mut received).await.unwrap() > 0 {}
    let elapsed = net.now() - since;
    assert!(elapsed >= LIMIT && elapsed < LIMIT + GRACE_PERIOD, "{elapsed:?}");
    received
}

/// Asks, and reads the answer.
async fn request(client: &mut Client, request: &[u8]) {
    client.write_all(request).await.unwrap();
    let mut received = Vec::new();
    while !received.ends_with(b"done") {
        assert!(client.read(&mut received).await.unwrap() > 0, "the connection has ended");
    }
}

/// The types of the frames after an HTTP/2 client has sent `bytes`.
fn frame_types(mut bytes: &[u8]) -> Vec<u8> {
    let mut types = Vec::new();
    while let Some((&[a, b, c, kind], _)) = bytes.split_first_chunk() {
        types.push(kind);
        bytes = &bytes[9 + u32::from_be_bytes([0, a, b, c]) as usize..];
    }
    types
}

fn a_client_ends_that_sends(start: &'static [u8]) {
    simulate(
        |options| options,
        move |mut client, net| async move {
            let since = net.now();
            client.write_all(start).await.unwrap();
            read_to_end(&mut client, &net, since).await;
        },
    );
}

#[test]
fn a_client_that_sends_nothing_ends() {
    a_client_ends_that_sends(b"");
}

#[test]
fn a_client_that_sends_a_part_of_the_preface_ends() {
    a_client_ends_that_sends(&PREFACE[..8]);
    a_client_ends_that_sends(&PREFACE[..20]);
}

#[test]
fn a_client_that_sends_half_a_head_ends() {
    a_client_ends_that_sends(&REQUEST[..20]);
}

#[test]
fn a_client_that_sends_no_request_over_http2_ends() {
    a_client_ends_that_sends(PREFACE);
}

#[test]
fn a_client_that_sends_its_head_slowly_ends() {
    simulate(
        |options| options,
        |mut client, net| async move {
            let since = net.now();
            for byte in &REQUEST[..5] {
                client.write_all(&[*byte]).await.unwrap();
                net.sleep(LIMIT / 6).await;
            }
            read_to_end(&mut client, &net, since).await;
        },
    );
}

#[test]
fn each_request_restarts_the_time() {
    simulate(
        |options| options,
        |mut client, net| async move {
            for _ in 0..3 {
                request(&mut client, REQUEST).await;
                net.sleep(LIMIT * 2 / 3).await;
            }
            request(&mut client, REQUEST).await;
            let since = net.now();
            read_to_end(&mut client, &net, since - Duration::from_secs(1)).await;
        },
    );
}

#[test]
fn a_slow_handler_is_not_limited() {
    simulate(
        |options| options,
        |mut client, net| async move {
            request(&mut client, b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
            assert!(net.now() >= 4 * LIMIT);
        },
    );
}

/// The handler has ended long before.
#[test]
fn a_slow_reader_gets_the_whole_response() {
    simulate(
        |options| options,
        |mut client, net| async move {
            client.write_all(b"GET /long HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            let mut received = Vec::new();
            while received.len() < LENGTH {
                net.sleep(LIMIT / 20).await;
                assert!(client.read(&mut received).await.unwrap() > 0, "{}", received.len());
            }
            assert!(net.now() > 3 * LIMIT, "it was not slow");
        },
    );
}

#[test]
fn a_reader_that_pauses_gets_the_whole_response() {
    simulate(
        |options| options,
        |mut client, net| async move {
            client.write_all(b"GET /long HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            let mut received = Vec::new();
            assert!(client.read(&mut received).await.unwrap() > 0);
            net.sleep(4 * LIMIT).await;
            while received.len() < LENGTH {
                assert!(client.read(&mut received).await.unwrap() > 0, "{}", received.len());
            }
        },
    );
}

/// The client opens the window of a response that it has asked for between the GOAWAY and the end.
#[test]
fn a_request_that_crosses_a_goaway_has_its_time() {
    simulate(
        |options| options,
        |mut client, net| async move {
            client.write_all(PREFACE).await.unwrap();
            net.sleep(LIMIT + Duration::from_millis(500)).await;
            let get = b"\0\0\x0c\x01\x05\0\0\0\x01\x82\x86\x04\x05/long\x41\x01x";
            client.write_all(get).await.unwrap();
            net.sleep(LIMIT / 2).await;
            for stream in 0..2 {
                let update = [0, 0, 4, 8, 0, 0, 0, 0, stream, 0, 15, 0, 0];
                client.write_all(&update).await.unwrap();
            }
            let mut received = Vec::new();
            while received.len() < LENGTH {
                assert!(client.read(&mut received).await.unwrap() > 0, "{}", received.len());
            }
        },
    );
}

#[test]
fn without_a_limit_a_client_may_wait() {
    simulate(
        |options| options.header_timeout(None),
        |mut client, net| async move {
            net.sleep(100 * LIMIT).await;
            request(&mut client, REQUEST).await;
            net.sleep(100 * LIMIT).await;
            request(&mut client, REQUEST).await;
        },
    );
}

/// The request is a field block of static indices and the host "x", in a frame of HEADERS that ends the stream.
#[test]
fn an_idle_connection_over_http2_ends_with_a_goaway() {
    const HEADERS: u8 = 1;
    const GOAWAY: u8 = 7;
    simulate(
        |options| options,
        |mut client, net| async move {
            client.write_all(PREFACE).await.unwrap();
            net.sleep(LIMIT / 2).await;
            let get = b"\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01x";
            client.write_all(get).await.unwrap();
            let since = net.now();
            let types = frame_types(&read_to_end(&mut client, &net, since).await);
            let position = |kind| types.iter().position(|frame| *frame == kind);
            assert!(
                position(HEADERS) < position(GOAWAY) && position(HEADERS).is_some(),
                "{types:?}"
            );
        },
    );
}
