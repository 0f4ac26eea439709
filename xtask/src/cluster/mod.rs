//! `cargo xtask cluster`: brokers on NATS as processes of this machine.
//!
//! | file | contents |
//! |---|---|
//! | `nodes` | the brokers |
//! | `servers` | the NATS servers |
//! | `machines` | network namespaces in which they run, with links that can be cut |
//! | `relay` | the connection of a broker to NATS, which can be cut |
//! | `wire` | a blocking connection to a broker |
//! | `load` | publishers and subscribers |
//! | `roaming` | clients that change their node |
//! | `probes` | checks by clients that connect for them |
//! | `nemesis` | faults |
//! | `ledger` | messages that were accepted, and those that arrived |
//! | `check` | a run under load with faults |
//! | `disturb` | the load and the faults of a run |

mod check;
mod disturb;
mod ledger;
mod load;
mod machines;
mod nemesis;
mod nodes;
mod probes;
mod relay;
mod roaming;
mod servers;
mod wire;

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

use clap::{Subcommand, value_parser};

use crate::live::{Home, binary};
use crate::task::Outcome;
use machines::Machine;
use nodes::{Cluster, ClusterConfig};

/// The tasks of `cargo xtask cluster`.
#[derive(Subcommand)]
pub(crate) enum Task {
    /// Run NATS servers and brokers on free ports, print their addresses, and stop all at Ctrl-C.
    Up {
        /// Brokers.
        #[arg(long, default_value_t = 3, value_parser = value_parser!(u64).range(1..=26))]
        nodes: u64,
        /// NATS servers.
        #[arg(long, default_value_t = 1, value_parser = value_parser!(u64).range(1..=9))]
        nats: u64,
    },
    /// Run three brokers under load and faults, and compare what arrives with the guarantees of
    /// docs/broker/cluster.md.
    ///
    /// Prints the numbers of lost, duplicate, reordered and stuck messages, and p50 and p99 of the times until the other
    /// nodes continued after a kill. With `--kept`, also of the failovers: the times until clients found their sessions at
    /// other nodes.
    Check(check::Options),
}

/// Runs a task.
pub(crate) fn run(root: &Path, task: Task) -> Outcome {
    match task {
        Task::Up { nodes, nats } => up(
            root,
            ClusterConfig { nodes: nodes as usize, servers: nats as usize, sessions_kept: false },
        ),
        Task::Check(options) => check::check(root, &options),
    }
}

/// Whether Ctrl-C or SIGTERM asked this process to end.
fn ending() -> Result<Arc<AtomicBool>, String> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, flag.clone())
            .map_err(|error| format!("cannot handle signals: {error}"))?;
    }
    Ok(flag)
}

/// Runs a cluster until Ctrl-C.
fn up(root: &Path, shape: ClusterConfig) -> Outcome {
    let ending = ending()?;
    let (binary, home) = (binary(root)?, Home::create("cluster")?);
    let cluster =
        Cluster::start(&[Machine::this(Ipv4Addr::LOCALHOST)], &binary, home.path(), shape)?;
    println!("data and logs in {}", home.path().display());
    for node in &cluster.nodes {
        println!("{}: mqtt://{}, admin pages http://{}/", node.name, node.address, node.admin);
    }
    println!("Ctrl-C stops all");
    while !ending.load(Ordering::Relaxed) {
        if let Some(node) = cluster.nodes.iter().find(|node| !node.process().is_running()) {
            return Err(format!("node {} ended; see its log", node.name).into());
        }
        thread::sleep(Duration::from_millis(100));
    }
    for node in &cluster.nodes {
        node.process().end()?;
    }
    Ok(true)
}
