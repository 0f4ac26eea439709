//! Queries of many concurrent callers on one PostgreSQL server, over Phalanx and over tokio-postgres.
//!
//! `phalanx-database SCENE [ROUNDS [CALLERS]]` starts a temporary server, runs all arms once in each round, and prints
//! for each the median of the rounds: queries a second, and the processor time per query of the clients and of the
//! database. The scene `insert` commits one row per query, `select` reads a row by its key. The arms:
//!
//! - `phalanx`: two processors with one connection each; batchable statements.
//! - `phalanx-one`: one connection for both processors.
//! - `phalanx-single`: as `phalanx`, each statement in a transaction of its own.
//! - `pool`: tokio's work-stealing runtime with two workers, and a pool of 32 connections.
//! - `pipelined`: two single-threaded runtimes with one connection each, which pipeline the queries of all callers.

mod load;
mod measure;
mod phalanx_arm;
mod tokio_arm;

use std::error::Error;
use std::sync::Arc;

use load::{Load, Scene};
use measure::Sample;
use phalanx_testkit::postgres::PostgresServer;

type Arm = fn(Arc<Load>) -> Result<(), Box<dyn Error + Send + Sync>>;

const ARMS: [(&str, Arm); 5] = [
    ("phalanx", phalanx_arm::batched),
    ("phalanx-one", phalanx_arm::one),
    ("phalanx-single", phalanx_arm::single),
    ("pool", tokio_arm::pool),
    ("pipelined", tokio_arm::pipelined),
];

/// The table of both scenes.
const SCHEMA: &str =
    "CREATE TABLE orders (id bigserial PRIMARY KEY, customer text NOT NULL, cents bigint NOT NULL)";

/// Rows for the scene `select`.
const ROWS: &str = "INSERT INTO orders (customer, cents) SELECT 'customer ' || i, i FROM generate_series(1, 100000) AS i";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let scene = match arguments.first().map(String::as_str) {
        Some("insert") => Scene::Insert,
        Some("select") => Scene::Select,
        _ => return Err("usage: phalanx-database insert|select [ROUNDS [CALLERS]]".into()),
    };
    let number = |index: usize| arguments.get(index).map(|text| text.parse::<usize>()).transpose();
    let (rounds, callers) = (number(1)?.unwrap_or(5), number(2)?.unwrap_or(64));
    let server = PostgresServer::start(&["max_connections = 100", "shared_buffers = 128MB"])?;
    let server = server.ok_or("PostgreSQL is not installed")?;
    phalanx_arm::execute(&server, &[SCHEMA, ROWS, "VACUUM ANALYZE orders", "CHECKPOINT"])?;
    let mut samples = vec![Vec::new(); ARMS.len()];
    for round in 0..rounds {
        for turn in 0..ARMS.len() {
            // Each arm runs first in some round.
            let index = (round + turn) % ARMS.len();
            let load = Arc::new(Load::new(scene, callers, server.socket()));
            let sample = measure::run(&server, load, ARMS[index].1)?;
            eprintln!("round {round}: {} {:.0} queries/s", ARMS[index].0, sample.rate);
            samples[index].push(sample);
        }
    }
    println!(
        "{:16} {:>10} {:>12} {:>12} {:>12}",
        "arm", "queries/s", "client µs", "database µs", "sum µs"
    );
    for ((name, _), samples) in ARMS.iter().zip(&samples) {
        let Sample { rate, client, database } = Sample::median(samples);
        println!("{name:16} {rate:10.0} {client:12.1} {database:12.1} {:12.1}", client + database);
    }
    for (ours, theirs) in [(0, 3), (0, 4), (1, 3), (1, 4)] {
        let ratio = |value: fn(&Sample) -> f64| {
            let ratios = samples[ours].iter().zip(&samples[theirs]);
            measure::median(ratios.map(|(ours, theirs)| value(ours) / value(theirs)).collect())
        };
        println!(
            "{} / {}: queries {:.2}, database {:.2}, client and database {:.2}",
            ARMS[ours].0,
            ARMS[theirs].0,
            ratio(|sample| sample.rate),
            ratio(|sample| sample.database),
            ratio(|sample| sample.client + sample.database),
        );
    }
    Ok(())
}
