//! The `Router` in simulation: clients and the database lose connections, reads and writes are short, and every answer
//! still agrees with the table.
//!
//! `PHALANX_SEEDS=2000 cargo test -p phalanx-orders simulated` tries 2,000 worlds.

mod database;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use phalanx::Graph;
use phalanx::sim::{self, Client, Faults, Net, World};
use phalanx_axum::Stages;
use phalanx_postgres::Config;
use serde_json::Value;

use self::database::Server;
use crate::on_phalanx::Batched;
use crate::orders::Order;
use crate::router::router;

const CLIENTS: i64 = 3;
const ORDERS: i64 = 5;

/// The outcome of an order, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Placed(i64),
    Invalid,
    /// Unknown: the connection was lost, or the server returned an error.
    Unknown,
}

type Outcomes = Rc<RefCell<Vec<(String, i64, Outcome)>>>;

/// The status and the content of the response to a request; none if the connection was lost.
async fn ask(client: &mut Client, line: &str, content: &str) -> Option<(u16, String)> {
    let request = format!(
        "{line} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{content}",
        content.len()
    );
    client.write_all(request.as_bytes()).await.ok()?;
    let mut received = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&received);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split("content-length: ").nth(1)?.lines().next()?.parse().ok()?;
            if body.len() >= length {
                let status = head.split(' ').nth(1)?.parse().ok()?;
                return Some((status, body.to_owned()));
            }
        }
        if client.read(&mut received).await.ok()? == 0 {
            return None;
        }
    }
}

/// Places orders, and reads those that were placed. Connects again when the connection is lost.
async fn shop(net: Net, address: std::net::SocketAddr, number: i64, outcomes: Outcomes) {
    let mut connection = None;
    for order in 0..ORDERS {
        if connection.is_none() {
            connection = net.connect(address).await.ok();
        }
        let Some(client) = &mut connection else { continue };
        let customer = format!("customer {number}-{order}");
        // The table refuses orders without a price.
        let cents = (number + order) % 4;
        let content = format!("{{\"customer\": \"{customer}\", \"cents\": {cents}}}");
        let answer = ask(client, "POST /orders", &content).await;
        let outcome = match &answer {
            Some((201, body)) => {
                let placed: Value = serde_json::from_str(body).unwrap();
                Outcome::Placed(placed["id"].as_i64().unwrap())
            }
            Some((422, _)) => Outcome::Invalid,
            Some((500 | 503, _)) | None => Outcome::Unknown,
            other => panic!("{other:?}"),
        };
        outcomes.borrow_mut().push((customer.clone(), cents, outcome));
        let found = match outcome {
            Outcome::Placed(id) => ask(client, &format!("GET /orders/{id}"), "").await,
            _ => answer,
        };
        match found {
            None => connection = None,
            Some((200, body)) => {
                let found: Order = serde_json::from_str(&body).unwrap();
                assert_eq!((found.customer, found.cents), (customer, cents));
            }
            Some((status, body)) => assert!(matches!(status, 422 | 500 | 503), "{status}: {body}"),
        }
    }
}

/// Clients place orders. Counts those that were placed.
fn orders(world: &mut World, placed: Arc<AtomicUsize>) {
    world.set_faults(Faults::random(world.seed()));
    world.set_max_steps(2_000_000);
    let (http, db) = ("10.0.0.1:80".parse().unwrap(), "10.0.0.2:5432".parse().unwrap());
    let server = Server::new(world.seed());
    let mut graph = Graph::new();
    let stages = Stages::declare(&mut graph);
    let servers = graph.shared("servers", ());
    let config = Config::tcp(db).queue_timeout(Duration::from_secs(20));
    let app = router(Batched::declare(&mut graph, config));
    let (of_http, of_db) = (world.listen(http), world.listen(db));
    let of_program = server.clone();
    world.program(graph, move |start| {
        stages.serve(of_http.listener(start)?, app.clone())?;
        let (listener, server) = (of_db.listener(start)?, of_program.clone());
        servers.dispatch(move |_| {
            listener.accept_each(move |stream| {
                let server = server.clone();
                let _ = servers.dispatch(move |_| async move { server.serve(stream).await });
            })
        })?;
        Ok(())
    });
    let outcomes = Outcomes::default();
    for number in 0..CLIENTS {
        world.client(shop(world.net(), http, number, outcomes.clone()));
    }
    world.after_shutdown(move || {
        let table = server.table.lock().unwrap();
        for (customer, cents, outcome) in outcomes.borrow().iter() {
            let rows: Vec<_> =
                table.rows.iter().filter(|(_, order)| order.customer == *customer).collect();
            assert!(rows.iter().all(|(_, order)| order.cents == *cents));
            let agrees = match outcome {
                Outcome::Placed(id) => rows.len() == 1 && rows[0].0 == id && *cents > 0,
                Outcome::Invalid => rows.is_empty() && *cents == 0,
                Outcome::Unknown => rows.len() <= 1,
            };
            placed.fetch_add(usize::from(matches!(outcome, Outcome::Placed(_))), Ordering::Relaxed);
            assert!(agrees, "{customer}: {outcome:?}, and the rows {rows:?}");
        }
    });
}

#[test]
fn answers_agree_with_the_table_whatever_breaks() {
    let placed = Arc::new(AtomicUsize::new(0));
    let counted = placed.clone();
    sim::explore(4, move |world| orders(world, counted.clone()));
    assert!(placed.load(Ordering::Relaxed) > 0, "no order was placed");
}
