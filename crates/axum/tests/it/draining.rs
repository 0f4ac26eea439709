//! The end of connections when the program drains, in simulations, whose time is virtual.

use std::future::Future;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use phalanx::Graph;
use phalanx::sim::{self, Client, Faults, Net};
use phalanx_axum::Options;

/// The time of the drain.
const DRAIN: Duration = Duration::from_secs(10);
/// The length of the content of `/long`.
const LENGTH: usize = 600_000;

/// Of HTTP/2, with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Serves some routes without a limit of its own, and connects with `client`.
fn simulate<C: Future<Output = ()> + 'static>(client: impl Fn(Client, Net) -> C + Copy + 'static) {
    sim::explore(3, |world| {
        let address = "10.0.0.1:80".parse().unwrap();
        world.set_faults(Faults { immediate: 500, ..Faults::NONE });
        world.advance_only_when_idle();
        let mut graph = Graph::new();
        let http = Options::new().header_timeout(None).declare(&mut graph);
        let operators = graph.shared("operators", ());
        let slow = || async {
            phalanx::sleep(DRAIN + Duration::from_secs(5)).await;
            "done"
        };
        let app = Router::new()
            .route("/slow", get(slow))
            .route("/long", get(|| async { "x".repeat(LENGTH) }));
        let endpoints = world.listen(address);
        world.program(graph, move |start| {
            http.serve(endpoints.listener(start)?, app.clone())?;
            let control = start.control();
            operators.dispatch(move |_| async move {
                phalanx::sleep(DRAIN).await;
                control.drain();
            })?;
            Ok(())
        });
        let net = world.net();
        world.client(async move {
            let connected = net.connect(address).await.unwrap();
            client(connected, net).await;
        });
    });
}

/// Reads to the end of the connection, which comes soon after `expected`.
async fn read_to_end(client: &mut Client, net: &Net, expected: Duration) -> Vec<u8> {
    let mut received = Vec::new();
    while client.read(&mut received).await.unwrap() > 0 {}
    let end = net.now();
    assert!(end >= expected && end < expected + Duration::from_secs(2), "{end:?}");
    received
}

#[test]
fn a_client_over_http2_that_does_not_answer_ends() {
    simulate(|mut client, net| async move {
        client.write_all(PREFACE).await.unwrap();
        read_to_end(&mut client, &net, DRAIN).await;
    });
}

#[test]
fn a_client_that_sends_half_a_head_ends() {
    simulate(|mut client, net| async move {
        client.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
        read_to_end(&mut client, &net, DRAIN).await;
    });
}

#[test]
fn a_request_in_progress_is_completed() {
    simulate(|mut client, net| async move {
        client.write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let received = read_to_end(&mut client, &net, DRAIN + Duration::from_secs(5)).await;
        assert!(received.ends_with(b"done"));
    });
}

/// The handler has ended. From time to time, the client opens the HTTP/2 window for the rest of the response.
#[test]
fn a_response_that_waits_for_a_window_is_completed() {
    simulate(|mut client, net| async move {
        client.write_all(PREFACE).await.unwrap();
        net.sleep(DRAIN - Duration::from_secs(1)).await;
        let get = b"\0\0\x0c\x01\x05\0\0\0\x01\x82\x86\x04\x05/long\x41\x01x";
        client.write_all(get).await.unwrap();
        let (mut received, mut window) = (Vec::new(), 65_535);
        loop {
            while received.len() < window.min(LENGTH) {
                assert!(client.read(&mut received).await.unwrap() > 0, "{}", received.len());
            }
            if window >= LENGTH {
                break;
            }
            net.sleep(Duration::from_millis(700)).await;
            for stream in 0..2 {
                let update = [0, 0, 4, 8, 0, 0, 0, 0, stream, 0, 1, 0, 0];
                client.write_all(&update).await.unwrap();
            }
            window += 0x10000;
        }
        assert!(net.now() > DRAIN + Duration::from_secs(2));
    });
}
