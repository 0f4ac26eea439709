//! `cargo xtask cluster`: brokers on NATS as processes of this machine.
//!
//! | file | contents |
//! |---|---|
//! | `nodes` | the processes |
//! | `relay` | the connection of a broker to NATS, which can be cut |
//! | `wire` | a blocking connection to a broker |
//! | `load` | publishers and subscribers |
//! | `probes` | checks by clients that connect for them |
//! | `nemesis` | faults |
//! | `ledger` | messages that were accepted, and those that arrived |
//! | `check` | a run under load with faults |

mod check;
mod ledger;
mod load;
mod nemesis;
mod nodes;
mod probes;
mod relay;
mod wire;

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::live::{Home, binary, option};
use crate::task::{Outcome, usage};
use nodes::Cluster;

/// Runs `up` or `check`.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    match arguments.split_first() {
        Some((what, rest)) if what == "up" => Ok(up(root, rest)?),
        Some((what, rest)) if what == "check" => Ok(check::check(root, rest)?),
        _ => Err(usage("expected `up` or `check`")),
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
fn up(root: &Path, arguments: &[String]) -> Result<bool, String> {
    let count = option(arguments, "--nodes")?.unwrap_or(3).clamp(1, 26);
    let text = |error: std::io::Error| error.to_string();
    let ending = ending()?;
    let (binary, home) = (binary(root).map_err(text)?, Home::make("cluster").map_err(text)?);
    let cluster = Cluster::start(Ipv4Addr::LOCALHOST, &binary, home.path(), count)?;
    println!("data and logs in {}", home.path().display());
    for node in &cluster.nodes {
        println!("{}: mqtt://{}, admin pages http://{}/", node.name, node.address, node.admin);
    }
    println!("Ctrl-C stops all");
    while !ending.load(Ordering::Relaxed) {
        if let Some(node) = cluster.nodes.iter().find(|node| !node.process().lives()) {
            return Err(format!("node {} ended; see its log", node.name));
        }
        thread::sleep(Duration::from_millis(100));
    }
    for node in &cluster.nodes {
        node.process().end()?;
    }
    Ok(true)
}
