//! Queries on a scripted server in simulation: connections are reset, the server crashes at every point of the
//! protocol, and each query still has one outcome that agrees with the table.

mod errors;
mod scripted;
mod scripts;
mod server;
mod waiting;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::sim::{self, Faults, World};
use phalanx::{Graph, sleep};
use phalanx_postgres::{Config, Database, Error, Statement, Type};
use server::Server;

const CALLERS: i32 = 8;
const QUERIES: i32 = 6;

/// The result of a query, and whether the row may be in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Executed,
    Failed,
    Unknown,
}

fn outcome(number: i32, result: &Result<u64, Error>) -> Outcome {
    match result {
        Ok(rows) => {
            assert_eq!(*rows, 1);
            assert!(Server::accepts(number));
            Outcome::Executed
        }
        Err(Error::Database(error)) => {
            assert!(!Server::accepts(number) || error.code() != "23514");
            Outcome::Failed
        }
        Err(Error::Unavailable { .. }) => Outcome::Failed,
        Err(Error::ConnectionLost { .. }) => Outcome::Unknown,
        Err(error) => panic!("{error}"),
    }
}

/// Callers insert numbers, some of which the server rejects. `faults` of a thousand messages break the server.
fn insert_numbers(world: &mut World, faults: u32, config: impl Fn(Config) -> Config) {
    let address = "10.0.0.1:5432".parse().unwrap();
    let server = Server::new(world.seed(), faults);
    let mut graph = Graph::new();
    let (callers, servers) = (graph.shared("callers", ()), graph.shared("servers", ()));
    let config = config(Config::tcp(address).queue_timeout(Duration::from_secs(20)));
    let database = Database::declare(&mut graph, config);
    let insert = Statement::new("INSERT INTO numbers VALUES ($1)", &[Type::INT4]).batchable();
    let (listeners, processors) = (world.listen(address), world.processors());
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let running = Arc::new(AtomicUsize::new(processors * CALLERS as usize));
    let (server_of_program, outcomes_of_program) = (server.clone(), outcomes.clone());
    let running_of_program = running.clone();
    world.program(graph, move |start| {
        let listener = listeners.listener(start)?;
        let server = server_of_program.clone();
        servers.dispatch(move |_| async move {
            while let Ok(stream) = listener.accept().await {
                let server = server.clone();
                let _ = servers.dispatch(move |_| async move { server.serve(stream).await });
            }
        })?;
        for caller in 0..CALLERS {
            let first = (start.processor() as i32 * CALLERS + caller) * QUERIES;
            let (insert, outcomes) = (insert.clone(), outcomes_of_program.clone());
            let running = running_of_program.clone();
            callers.dispatch(move |_| async move {
                for number in first..first + QUERIES {
                    let query = database.execute(&insert, &[&number]);
                    if number % 11 == 0 {
                        drop(query);
                        continue;
                    }
                    let result = query.await;
                    outcomes.lock().unwrap().push((number, outcome(number, &result)));
                    sleep(Duration::from_millis(number as u64 % 3)).await;
                }
                running.fetch_sub(1, Ordering::Relaxed);
            })?;
        }
        Ok(())
    });
    let net = world.net();
    world.client(async move {
        while running.load(Ordering::Relaxed) > 0 {
            net.sleep(Duration::from_millis(100)).await;
        }
    });
    world.after_shutdown(move || {
        let committed = server.committed.lock().unwrap();
        for (number, outcome) in outcomes.lock().unwrap().iter() {
            let rows = committed.get(number).copied().unwrap_or(0);
            let agrees = match outcome {
                Outcome::Executed => rows == 1,
                Outcome::Failed => rows == 0,
                Outcome::Unknown => rows <= 1,
            };
            assert!(agrees, "{number}: {outcome:?}, and {rows} rows");
        }
        assert!(committed.values().all(|rows| *rows == 1), "a row was inserted twice");
        if faults == 0 {
            let unknown = outcomes.lock().unwrap().iter().any(|(_, o)| *o == Outcome::Unknown);
            assert!(!unknown, "nothing was lost");
        }
    });
}

#[test]
fn only_rejected_rows_fail_on_a_reliable_network() {
    sim::explore(5, |world| {
        world.set_faults(Faults { reset: 0, accept: 0, ..Faults::MILD });
        insert_numbers(world, 0, |config| config);
    });
}

#[test]
fn each_query_has_one_outcome_whatever_breaks() {
    sim::explore(10, |world| {
        let faults = Faults::random(world.seed());
        world.set_faults(faults);
        world.set_max_steps(2_000_000);
        let (connections, batch) = (1 + world.draw(2) as usize, 1 + world.draw(40) as usize);
        insert_numbers(world, 20, |config| config.connections(connections).max_batch(batch));
    });
}
