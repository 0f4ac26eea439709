//! A key-value store with the Redis protocol, for use with `redis-cli` and `redis-benchmark`.
//!
//! The files in the order of a request: `stages` declares the stages, `connection` serves a client, `resp` parses
//! its requests, `command` interprets them, `round` forks their steps (`step`) over the partitions of the `store` and
//! joins the results, `reply` writes the answers.

#![forbid(unsafe_code)]

mod command;
mod connection;
mod fixed;
mod glob;
mod key;
mod reply;
mod resp;
mod round;
mod stages;
mod step;
mod store;
mod sweep;

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use clap::Parser;
use phalanx::net::Listeners;
use phalanx::runtime::{DriverChoice, raise_open_files};
use phalanx::{Graph, Runtime};

use crate::stages::Stages;

/// A key-value store with the Redis protocol.
#[derive(Parser)]
struct Arguments {
    /// Address to listen on; port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:6379")]
    listen: SocketAddr,
    /// Number of processors, each a thread.
    #[arg(long, default_value_t = 2)]
    processors: usize,
    /// Address for /snapshot.json and /metrics.
    #[arg(long)]
    admin: Option<SocketAddr>,
    /// Maximum number of clients; further ones are rejected.
    #[arg(long, default_value_t = 10_000)]
    max_clients: usize,
    /// I/O driver: auto, uring or poll.
    #[arg(long, env = "PHALANX_DRIVER", default_value = "auto")]
    driver: DriverChoice,
    /// Bind each thread to a core of its own.
    #[arg(long)]
    pin: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    raise_open_files();
    let listeners = Listeners::bind(arguments.listen, arguments.processors)?;
    let mut graph = Graph::new();
    let stages = Stages::declare(&mut graph);
    let runtime = Runtime::new()
        .processors(arguments.processors)
        .driver(arguments.driver)
        .admin(arguments.admin)
        .pin(arguments.pin);
    // Counts the clients of all processors.
    let clients = Arc::new(());
    let start = |start: &phalanx::runtime::StartContext| {
        let listener = listeners.listener(start)?;
        let (accepting, clients) = (stages.clone(), clients.clone());
        let max_references = arguments.max_clients.saturating_add(1 + arguments.processors);
        stages.clients.dispatch(move |_| {
            listener.accept_each(move |stream| {
                let (stages, present) = (accepting.clone(), clients.clone());
                // A client that another processor has served was admitted there.
                if Arc::strong_count(&present) > max_references && !stream.has_moved() {
                    return; // dropped: closed
                }
                // Rejected when the processor has too many operations: the connection closes.
                let _ = accepting.clients.dispatch(move |_| async move {
                    let _present = present;
                    let _ = connection::serve(stream, stages).await;
                });
            })
        })?;
        if start.processor() == 0 {
            let sweeping = stages.clone();
            stages.clients.dispatch(move |_| sweep::sweep(sweeping))?;
        }
        Ok(())
    };
    runtime.run_with_ready(graph, start, |up| {
        // An output without a reader does not end the server.
        let _ = writeln!(io::stdout(), "listening on {}", listeners.local_addr());
        if let Some(admin) = up.admin {
            let _ = writeln!(io::stderr(), "admin page at http://{admin}/snapshot.json");
        }
    })?;
    Ok(())
}
