//! The same axum `Router` on Phalanx and on tokio, for `phalanx-bench axum`.
//!
//! `phalanx-axum-arms ARM PROCESSORS [SOCKET]` serves until it is killed and prints `listening on http://ADDRESS`. With
//! the Unix socket of a PostgreSQL server, it also serves the routes that need a database. The arms:
//!
//! - `phalanx`: `phalanx-axum` with a processor for each core, and `phalanx-postgres` with a connection for each.
//! - `axum-serve`: `axum::serve` on tokio's work-stealing runtime, as in axum's examples, and a pool of 32 connections.
//! - `tokio-cores`: `axum::serve` on a single-threaded runtime for each core, with a listener and a pipelined connection
//!   for each.
//!
//! `phalanx-axum-arms prepare SOCKET` creates the table.

mod app;
mod on_phalanx;
mod on_tokio;

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let usage = "usage: phalanx-axum-arms phalanx|axum-serve|tokio-cores PROCESSORS [SOCKET]\n\
                 or phalanx-axum-arms prepare SOCKET";
    if let ["prepare", socket] = arguments[..] {
        return on_phalanx::prepare(Path::new(socket));
    }
    let (arm, processors, socket) = match arguments[..] {
        [arm, processors] => (arm, processors.parse()?, None),
        [arm, processors, socket] => (arm, processors.parse()?, Some(Path::new(socket))),
        _ => return Err(usage.into()),
    };
    match arm {
        "phalanx" => on_phalanx::serve(processors, socket),
        "axum-serve" => on_tokio::axum_serve(processors, socket),
        "tokio-cores" => on_tokio::cores(processors, socket),
        _ => Err(usage.into()),
    }
}

/// Says where the server listens.
fn announce(address: SocketAddr) {
    println!("listening on http://{address}");
}
