//! An API of orders: `POST /orders` is answered when the order is durable in PostgreSQL, and `GET /orders/ID` reads it.
//!
//! ```sh
//! cargo run --release -p phalanx-orders -- --on phalanx
//! curl --json '{"customer": "anna", "cents": 1250}' http://127.0.0.1:7010/orders
//! ```
//!
//! It starts PostgreSQL in a temporary folder, which is removed at the end. One axum `Router` (`router.rs`) runs on two
//! runtimes:
//!
//! - `--on phalanx`: each request is a call on a stage. The orders of a cohort are one write to the database and one
//!   commit, on one connection for each processor (`on_phalanx.rs`).
//! - `--on tokio`: tokio's runtime, `axum::serve`, and sqlx's pool with 32 connections (`on_tokio.rs`).

mod on_phalanx;
mod on_tokio;
mod orders;
mod router;
#[cfg(test)]
mod simulated;

use std::error::Error;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};

use clap::{Parser, ValueEnum};
use phalanx_testkit::postgres::PostgresServer;

/// An API whose answers wait for durable rows.
#[derive(Parser)]
struct Arguments {
    /// The runtime
    #[arg(long, value_enum, default_value = "phalanx")]
    on: On,
    /// The address to listen on
    #[arg(default_value = "127.0.0.1:7010")]
    address: SocketAddr,
    /// The address of the admin pages, whose live page shows the cohorts; only on Phalanx
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
}

#[derive(Clone, Copy, ValueEnum)]
enum On {
    Phalanx,
    Tokio,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { on, address, admin } = Arguments::parse();
    if matches!(on, On::Tokio) && admin.is_some() {
        return Err(
            "the admin pages are those of Phalanx: leave out --admin, or use --on phalanx".into()
        );
    }
    let server = PostgresServer::start(&[])?;
    let server =
        server.ok_or("PostgreSQL is not installed (Debian: apt-get install postgresql)")?;
    on_phalanx::create_table(&server.socket())?;
    let listener = TcpListener::bind(address)?;
    // An output without a reader does not end the server.
    let _ = writeln!(io::stdout(), "listening on {}", listener.local_addr()?);
    match on {
        On::Phalanx => on_phalanx::serve(&listener, &server.socket(), admin),
        On::Tokio => on_tokio::serve(listener, &server.socket()),
    }
}
