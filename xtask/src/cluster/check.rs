//! `cargo xtask cluster check`: load with faults, and a comparison with the guarantees of docs/broker/cluster.md.

use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};
use fastrand::Rng;

use super::disturb::disturb;
use super::ending;
use super::ledger::{Ledger, Verdict};
use super::load::{Shared, lock};
use super::machines::Machine;
use super::nemesis::Nemesis;
use super::nodes::{Cluster, ClusterConfig};
use crate::live::{Home, binary, quantile};
use crate::task::Outcome;

/// The guarantees that are compared.
const PROMISES: &str = "\
The check compares these guarantees of docs/broker/cluster.md:
  QoS 1       every message with a PUBACK arrives at each subscriber, at all nodes
  QoS 2       the same for PUBREC, and no message arrives twice
  order       messages of one publisher and one QoS arrive first in the order in which it published them
  $share      one member in the cluster gets each message; with QoS 2 once
  sessions    kept sessions are present after each restart of their node
  SUBACK      between faults, the first message after a SUBACK arrives
  retained    the last message with a PUBACK becomes the retained one at all nodes
  takeover    between faults, a client that connects elsewhere is disconnected
  restarts    each node serves its clients within 30 s of its start, and messages pass within 60 s of a fault
QoS 0 messages, repetitions of QoS 1, and sessions at another node are not guaranteed, and not compared.";

/// The differences with kept sessions.
const KEPT_SESSION_PROMISES: &str = "\
With --kept, NATS has a copy of the sessions. No fault concerns the last node. There are no groups.
  sessions    kept sessions are present after a fault, at their node or at the one that has adopted them
  leases      a fault of NATS alone costs no node its sessions
With --roam, clients change their node every few seconds, except for publishers of retained messages.
  sessions    they are present at each node to which their client connects
  order       it is kept when the publisher or the subscriber moves";

/// Nodes of the cluster.
const NODES: usize = 3;

/// The arguments of `cargo xtask cluster check`.
#[derive(Args)]
pub(crate) struct Options {
    /// Duration, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Kinds of faults, separated by commas; by default all.
    #[arg(long, value_delimiter = ',', conflicts_with = "no_nemesis")]
    nemesis: Vec<Nemesis>,
    /// Cause no faults.
    #[arg(long)]
    no_nemesis: bool,
    /// Messages per second of each publisher.
    #[arg(long, default_value_t = 50, value_parser = value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Keep a copy of the sessions in NATS: subscribers continue theirs at the nodes that adopt them.
    #[arg(long)]
    kept: bool,
    /// Clients change their node every few seconds, and their sessions move there.
    #[arg(long, requires = "kept")]
    roam: bool,
    /// NATS servers. With three, a fault of NATS concerns one of them, a cut the path of a node to one server or to all,
    /// and each machine of a server and a broker can be cut off from the others.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u64).range(1..=9))]
    nats: u64,
    /// Seed of the faults; by default another one in each run.
    #[arg(long)]
    seed: Option<NonZeroU64>,
}

impl Options {
    /// The kinds of faults, and the machines on which the processes run: namespaces if machines are cut off from each
    /// other.
    ///
    /// # Errors
    /// If a fault is named that cannot be caused.
    fn plan(&self) -> Result<(Vec<Nemesis>, Vec<Arc<Machine>>), String> {
        let servers = self.nats as usize;
        let mut kinds = match &self.nemesis[..] {
            _ if self.no_nemesis => Vec::new(),
            [] => Nemesis::value_variants().to_vec(),
            kinds => kinds.to_vec(),
        };
        if kinds.contains(&Nemesis::Split) {
            let is_named = !self.nemesis.is_empty();
            let separated = match servers {
                3.. => Machine::separate(servers.max(NODES)).map(Some),
                _ if is_named => {
                    Err("it needs --nats 3, so that the other NATS servers are a majority".into())
                }
                _ => Ok(None),
            };
            match separated {
                Ok(Some(machines)) => return Ok((kinds, machines)),
                Ok(None) => {}
                Err(reason) if !is_named => println!("LEFT OUT: the fault split: {reason}"),
                Err(reason) => return Err(format!("the fault split is not possible: {reason}")),
            }
            kinds.retain(|kind| *kind != Nemesis::Split);
        }
        // No other process uses ports of this address, so each can be used again after a kill.
        let [.., high, low] = process::id().to_be_bytes();
        let host = Ipv4Addr::new(127, 254, high, low.clamp(1, 254));
        Ok((kinds, vec![Machine::this(host)]))
    }
}

/// Runs the check. Returns whether it found no fault.
pub(super) fn check(root: &Path, options: &Options) -> Outcome {
    let Options { seconds, rate, kept: sessions_kept, .. } = *options;
    let seed = options.seed.map_or_else(|| process::id().into(), NonZeroU64::get);
    let ending = ending()?;
    let (binary, home) = (binary(root)?, Home::create("cluster")?);
    let (kinds, machines) = options.plan()?;
    let shape = ClusterConfig { nodes: NODES, servers: options.nats as usize, sessions_kept };
    let cluster = Cluster::start(&machines, &binary, home.path(), shape)?;
    println!("{PROMISES}");
    if sessions_kept {
        println!("{KEPT_SESSION_PROMISES}");
    }
    let servers = match options.nats {
        1 => "1 NATS server".to_owned(),
        count => format!("{count} NATS servers"),
    };
    println!(
        "{NODES} nodes and {servers} for {seconds} s, seed {seed}, {rate} messages/s of each publisher"
    );
    let shared = Arc::new(Shared {
        cluster,
        ledger: Ledger::default(),
        disturbed_nodes: NODES - usize::from(sessions_kept),
        may_lose: AtomicBool::new(false),
        sessions_kept,
        roams: options.roam.then_some(seed),
        node_of_subscriber: Mutex::default(),
        returns: Mutex::default(),
        moves: Mutex::default(),
        interval: Duration::from_secs(1) / rate,
        kept: Mutex::default(),
        subscribed: AtomicUsize::new(0),
        is_load_over: AtomicBool::new(false),
        is_complete: AtomicBool::new(false),
    });
    let mut continued = Vec::new();
    let result =
        disturb(&shared, &kinds, seconds, &mut Rng::with_seed(seed), &ending, &mut continued);
    if result.is_err() {
        shared.is_complete.store(true, Ordering::Relaxed);
        shared.cluster.kill();
    }
    let (verdict, faults) = shared.ledger.finish();
    faults.iter().for_each(|fault| println!("FAULT: {fault}"));
    let is_ok = verdict == Verdict::default() && result.is_ok();
    if !is_ok {
        // For a diagnosis.
        println!("data and logs are kept in {}", home.keep().display());
    }
    result?;
    let continued = times("others continue after a kill", &mut continued);
    if sessions_kept {
        // A client whose node is lost waits for its failover.
        println!("{verdict} {}", times("failovers", &mut lock(&shared.returns)));
        println!("{continued}");
        if options.roam {
            println!("{}", times("moves", &mut lock(&shared.moves)));
        }
    } else {
        println!("{verdict} {continued}");
    }
    Ok(is_ok)
}

/// The number and the quantiles of times.
fn times(name: &str, all: &mut [Duration]) -> String {
    let [p50, p99] = [0.5, 0.99].map(|share| quantile(all, share).as_secs_f64());
    format!("{name}={} p50={p50:.3}s p99={p99:.3}s", all.len())
}
