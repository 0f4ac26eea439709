//! A `Router` in simulations: every order of events, short reads and writes, resets, and a stage behind the handler.

use std::cell::RefCell;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::post;
use phalanx::net::Listener;
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
async fn ask(client: &mut Client, number: u64) -> Option<u64> {
    let request = format!("POST /add/{number} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
    client.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            let length = head.split("content-length: ").nth(1).unwrap();
            let length: usize = length.lines().next().unwrap().parse().unwrap();
            if body.len() == length {
                return Some(body.parse().unwrap());
            }
        }
        if client.read(&mut answer).await.ok()? == 0 {
            return None;
        }
    }
}

#[test]
fn answers_are_right_whatever_the_network_does() {
    sim::explore(40, |world| {
        let address = "10.0.0.1:80".parse().unwrap();
        let mut graph = Graph::new();
        let http = Stages::declare(&mut graph);
        let sums: Sums = graph.partitioned("sums", |_| 0);
        let app = Router::new().route("/add/{number}", post(add)).with_state(sums);
        let endpoints = RefCell::new(world.listen(address));
        world.program(graph, move |_| {
            let listener = Listener::new(endpoints.borrow_mut().pop().expect("one for each"))?;
            http.serve(listener, app.clone())?;
            Ok(())
        });
        for _ in 0..3 {
            let net = world.net();
            world.client(async move {
                let Ok(mut client) = net.connect(address).await else { return };
                let mut last = 0;
                for number in 1..6 {
                    let Some(sum) = ask(&mut client, number).await else { return };
                    assert!(sum >= last + number, "{sum} after {last}");
                    last = sum;
                }
            });
        }
    });
}
