//! A log server: clients send lines over TCP, and each line is answered with its position in the log once it is
//! on disk. `log [ADDR:PORT [DIRECTORY]]`, by default 127.0.0.1:7008 and the current folder. SIGINT or SIGTERM
//! stops it, and it prints the number of syncs.
//!
//! A sync dominates the cost of a durable line: a thousand times the rest. So the lines of a cohort share one
//! (group commit): the `log` stage has a serial cohort handler, which receives the lines of all connections of
//! all processors, writes them, syncs once and answers all. Lines received meanwhile are queued for the next
//! commit. A single client waits for one sync; a thousand concurrent clients wait little longer.

mod client;
mod commit;
#[cfg(test)]
mod power;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use phalanx::net::Listeners;
use phalanx::{Graph, Runtime};

use crate::client::accept;
use crate::commit::{Commits, Stages};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    phalanx::runtime::raise_open_files();
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or("127.0.0.1:7008".to_owned()).parse()?;
    let directory = PathBuf::from(arguments.next().unwrap_or(".".to_owned()));
    let processors = std::thread::available_parallelism()?.get();
    let directory = phalanx::fs::Dir::open(&directory)?;
    let listeners = Listeners::bind(address, processors)?;
    let listening = listeners.local_addr();

    let commits = Arc::new(Commits::default());
    let mut graph = Graph::new();
    let stages = Stages::declare(&mut graph, &directory, &commits);
    let start = |start: &phalanx::runtime::StartContext| {
        let listener = listeners.listener(start)?;
        stages.clients.dispatch(move |_| accept(listener, stages))?;
        Ok(())
    };
    let runtime = Runtime::new().processors(processors);
    // An output without a reader does not end the server.
    runtime.run_with_ready(graph, start, |_| {
        let _ = writeln!(io::stdout(), "listening on {listening}");
    })?;
    let _ = writeln!(io::stdout(), "{commits}");
    Ok(())
}
