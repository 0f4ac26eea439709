//! A `Router` in simulations: every order of events, short reads and writes, resets, and a stage behind the handler.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use phalanx::sim::{self, Client};
use phalanx::{Graph, PartitionedStage};
use phalanx_axum::Stages;

type Sums = PartitionedStage<u64>;

async fn add(State(sums): State<Sums>, Path(number): Path<u64>) -> String {
    let added = sums.call(7, move |sum| async move {
        sum.with(|sum| {
            *sum += number;
            *sum
        })
    });
    added.await.map_or_else(|error| error.to_string(), |sum| sum.to_string())
}

/// The body of an answer to one request; none if the connection was reset.
async fn request(client: &mut Client, number: u64) -> Option<u64> {
    let request = format!("POST /add/{number} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
    client.write_all(request.as_bytes()).await.ok()?;
    Some(answers(client, 1).await?[0])
}

/// The bodies of `count` answers; none if the connection was reset.
async fn answers(client: &mut Client, count: usize) -> Option<Vec<u64>> {
    let (mut received, mut bodies) = (Vec::new(), Vec::new());
    loop {
        let text = String::from_utf8_lossy(&received).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            let length = head.split("content-length: ").nth(1).unwrap();
            let length: usize = length.lines().next().unwrap().parse().unwrap();
            if body.len() >= length {
                bodies.push(body[..length].parse().unwrap());
                received.drain(..head.len() + 4 + length);
                if bodies.len() == count {
                    assert!(received.is_empty(), "{text}");
                    return Some(bodies);
                }
                continue;
            }
        }
        if client.read(&mut received).await.ok()? == 0 {
            return None;
        }
    }
}

#[test]
fn answers_are_right_whatever_the_network_does() {
    let answered = Arc::new(AtomicUsize::new(0));
    let counted = answered.clone();
    sim::explore(40, move |world| {
        let address = "10.0.0.1:80".parse().unwrap();
        let mut graph = Graph::new();
        let http = Stages::declare(&mut graph);
        let sums: Sums = graph.partitioned("sums", |_| 0);
        let app = Router::new().route("/add/{number}", post(add)).with_state(sums);
        let endpoints = world.listen(address);
        world.program(graph, move |start| {
            http.serve(endpoints.listener(start)?, app.clone())?;
            Ok(())
        });
        for _ in 0..3 {
            let (net, answered) = (world.net(), counted.clone());
            world.client(async move {
                let Ok(mut client) = net.connect(address).await else { return };
                let mut last = 0;
                for number in 1..6 {
                    let Some(sum) = request(&mut client, number).await else { return };
                    assert!(sum >= last + number, "{sum} after {last}");
                    last = sum;
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(answered.load(Ordering::Relaxed) > 0, "no request was answered");
}

/// The server drops the handler of a client that has left, also on a connection that should move. Otherwise the
/// simulation would be stuck.
#[test]
fn a_client_that_leaves_ends_its_handler() {
    sim::explore(40, |world| {
        let address = "10.0.0.1:80".parse().unwrap();
        let mut graph = Graph::new();
        let http = Stages::declare(&mut graph);
        let sums: Sums = graph.partitioned("sums", |_| 0);
        let app = Router::new()
            .route("/add/{number}", post(add))
            .route("/forever", get(std::future::pending::<()>))
            .with_state(sums);
        let endpoints = world.listen(address);
        world.program(graph, move |start| {
            http.serve(endpoints.listener(start)?, app.clone())?;
            Ok(())
        });
        for number in 0..8 {
            let net = world.net();
            world.client(async move {
                let Ok(mut client) = net.connect(address).await else { return };
                for _ in 0..8 {
                    if request(&mut client, number).await.is_none() {
                        return;
                    }
                    // Time in which the loads are measured again.
                    net.sleep(Duration::from_millis(5 + number)).await;
                }
                let _ = client.write_all(b"GET /forever HTTP/1.1\r\nhost: x\r\n\r\n").await;
                net.sleep(Duration::from_millis(20)).await;
            });
        }
    });
}

#[test]
fn connections_move_between_two_requests() {
    async fn processor(State(sums): State<Sums>) -> String {
        let added = sums.call(7, |sum| async move { sum.with(|sum| *sum += 1) });
        added.await.map_or_else(|error| error.to_string(), |()| number().to_string())
    }

    /// The processor's number.
    fn number() -> usize {
        let text = format!("{:?}", phalanx::embed::ProcessorId::current());
        text.bytes().fold(0, |sum, byte| sum * 31 % 1_000_003 + usize::from(byte))
    }

    let moves = Arc::new(AtomicUsize::new(0));
    let counted = moves.clone();
    sim::explore(40, move |world| {
        let address = "10.0.0.1:80".parse().unwrap();
        let mut graph = Graph::new();
        let http = Stages::declare(&mut graph);
        let sums: Sums = graph.partitioned("sums", |_| 0);
        let app = Router::new().route("/processor", get(processor)).with_state(sums);
        let endpoints = world.listen(address);
        world.program(graph, move |start| {
            http.serve(endpoints.listener(start)?, app.clone())?;
            Ok(())
        });
        for number in 0..8 {
            let (net, moves) = (world.net(), counted.clone());
            world.client(async move {
                let Ok(mut client) = net.connect(address).await else { return };
                let mut before = None;
                for round in 0..12 {
                    // Some requests arrive in pairs.
                    let count = 1 + usize::from(round % 3 == 2);
                    let request = b"GET /processor HTTP/1.1\r\nhost: x\r\n\r\n".repeat(count);
                    if client.write_all(&request).await.is_err() {
                        return;
                    }
                    let Some(bodies) = answers(&mut client, count).await else { return };
                    let changed = before.is_some_and(|before| before != bodies[0]);
                    moves.fetch_add(usize::from(changed), Ordering::Relaxed);
                    before = bodies.last().copied();
                    // Time in which the loads are measured again.
                    net.sleep(Duration::from_millis(5 + number)).await;
                }
            });
        }
    });
    assert!(moves.load(Ordering::Relaxed) > 0, "no connection has moved");
}
