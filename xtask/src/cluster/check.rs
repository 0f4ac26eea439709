//! `cargo xtask cluster check`: load with faults, and a comparison with the guarantees of docs/broker/cluster.md.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum, value_parser};
use phalanx_mqtt::QoS;

use super::ledger::{Kind, Ledger, Verdict};
use super::load::{Publisher, STUCK, Shared, Subscriber};
use super::nemesis::{LIMIT, Nemesis, Random, Strike};
use super::nodes::Cluster;
use super::{ending, probes};
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
Messages of QoS 0, repetitions of QoS 1, and sessions at another node are not guaranteed, and not compared.";

/// Nodes of the cluster.
const NODES: u64 = 3;

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
    /// Seed of the faults; by default another one in each run.
    #[arg(long)]
    seed: Option<NonZeroU64>,
}

impl Options {
    fn kinds(&self) -> &[Nemesis] {
        match &self.nemesis[..] {
            _ if self.no_nemesis => &[],
            [] => Nemesis::value_variants(),
            kinds => kinds,
        }
    }
}

/// Runs the check. Returns whether it found no fault.
pub(super) fn check(root: &Path, options: &Options) -> Outcome {
    let Options { seconds, rate, .. } = *options;
    let seed = options.seed.map_or_else(|| process::id().into(), NonZeroU64::get);
    let text = |error: std::io::Error| error.to_string();
    let ending = ending()?;
    let (binary, home) = (binary(root).map_err(text)?, Home::make("cluster").map_err(text)?);
    // No other process uses ports of this address, so each can be used again after a kill.
    let [.., high, low] = process::id().to_be_bytes();
    let host = Ipv4Addr::new(127, 254, high, low.clamp(1, 254));
    let cluster = Cluster::start(host, &binary, home.path(), NODES)?;
    println!("{PROMISES}");
    println!("{NODES} nodes for {seconds} s, seed {seed}, {rate} messages/s of each publisher");
    let shared = Arc::new(Shared {
        cluster,
        ledger: Ledger::default(),
        interval: Duration::from_secs(1) / rate,
        kept: Mutex::default(),
        subscribed: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        is_complete: AtomicBool::new(false),
    });
    let mut failovers = Vec::new();
    let ran =
        disturb(&shared, options.kinds(), seconds, &mut Random(seed), &ending, &mut failovers);
    let (verdict, faults) = shared.ledger.finish();
    faults.iter().for_each(|fault| println!("FAULT: {fault}"));
    let is_good = verdict == Verdict::default() && ran.is_ok();
    if !is_good {
        // For a diagnosis.
        println!("data and logs are kept in {}", home.keep().display());
    }
    ran?;
    let [p50, p99] = [0.5, 0.99].map(|share| quantile(&mut failovers, share).as_secs_f64());
    println!("{verdict} failovers={} p50={p50:.1}s p99={p99:.1}s", failovers.len());
    Ok(is_good)
}

/// Runs the load and the faults, and waits for the rest.
fn disturb(
    shared: &Arc<Shared>,
    kinds: &[Nemesis],
    seconds: u64,
    random: &mut Random,
    ending: &AtomicBool,
    failovers: &mut Vec<Duration>,
) -> Result<(), String> {
    let nodes = 0..shared.cluster.nodes.len();
    let groups = [None, Some("g")];
    let mut subscribers = Vec::new();
    for node in nodes.clone() {
        for group in groups {
            let own = Subscriber { shared: shared.clone(), node, group };
            shared.ledger.receives(&own.receiver());
            subscribers.push(thread::spawn(move || own.run()));
        }
    }
    await_of("the subscriptions", STUCK, || {
        shared.subscribed.load(Ordering::Relaxed) == subscribers.len()
    })?;
    heal(shared);
    let load = [(QoS::AtLeastOnce, false), (QoS::ExactlyOnce, false), (QoS::AtLeastOnce, true)];
    let publish = |node| {
        load.map(|(qos, is_retained)| {
            let own = Publisher { shared: shared.clone(), node, qos, is_retained };
            thread::spawn(move || own.run())
        })
    };
    let publishers: Vec<_> = nodes.flat_map(publish).collect();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(seconds) && !ending.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(200 + random.below(2_000)));
        let strikes = Strike::draw(kinds, shared.cluster.nodes.len(), random);
        if !strikes.is_empty() {
            let at = begun.elapsed().as_secs_f64();
            let (whats, times) = strike(shared, &strikes)?;
            let passes = heal(shared);
            // With two faults, the other one delays it.
            let failover = times.first().filter(|_| strikes.len() == 1);
            failovers.extend(failover);
            let failover = failover
                .map_or(String::new(), |time| format!("failover {:.1} s, ", time.as_secs_f64()));
            println!(
                "{at:6.1} s {}: {failover}messages pass {:.1} s after it; {} accepted, {} missing",
                whats.join(" and "),
                passes.as_secs_f64(),
                shared.ledger.count(),
                shared.ledger.missing(),
            );
        }
        quiet(shared);
        if let Some(node) = shared.cluster.nodes.iter().find(|node| !node.process().lives()) {
            return Err(format!("node {} ended by itself", node.name));
        }
    }
    shared.is_over.store(true, Ordering::Relaxed);
    finish(shared, &publishers);
    shared.is_complete.store(true, Ordering::Relaxed);
    for client in subscribers.into_iter().chain(publishers) {
        client.join().map_err(|_| "a client panicked")?;
    }
    Ok(())
}

/// Causes faults at the same time. Returns their descriptions, and the times of failovers.
fn strike(shared: &Shared, strikes: &[Strike]) -> Result<(Vec<String>, Vec<Duration>), String> {
    let run = |strike: &Strike| {
        let mut failover = None;
        strike.run(shared, &mut failover).map(|what| (what, failover))
    };
    let ran: Vec<_> = thread::scope(|scope| {
        let all: Vec<_> = strikes.iter().map(|strike| scope.spawn(|| run(strike))).collect();
        all.into_iter().map(|one| one.join().map_err(|_| "a fault panicked".to_owned())?).collect()
    });
    let ran = ran.into_iter().collect::<Result<Vec<_>, String>>()?;
    let (whats, times): (Vec<_>, Vec<_>) = ran.into_iter().unzip();
    Ok((whats, times.into_iter().flatten().collect()))
}

/// Waits until messages pass between all nodes. Returns the time.
fn heal(shared: &Shared) -> Duration {
    let begun = Instant::now();
    for_pairs(shared, |from, to| probes::passes(from, to, LIMIT));
    begun.elapsed()
}

/// Checks that apply while there is no fault.
fn quiet(shared: &Shared) {
    for_pairs(shared, |from, to| probes::passes_at_once(from, to, STUCK));
    for_pairs(shared, |from, to| probes::moves(from, to, STUCK, || Ok(())).map(drop));
}

fn for_pairs(
    shared: &Shared,
    mut check: impl FnMut(&super::nodes::Node, &super::nodes::Node) -> std::io::Result<()>,
) {
    let nodes = &shared.cluster.nodes;
    for from in nodes {
        for to in nodes.iter().filter(|to| to.name != from.name) {
            if let Err(error) = check(from, to) {
                let what = format!("from {} to {}: {error}", from.name, to.name);
                shared.ledger.fault(Kind::Stuck, &what);
            }
        }
    }
}

/// Waits until everything has arrived, and compares the retained messages.
fn finish(shared: &Shared, publishers: &[JoinHandle<()>]) {
    let all_sent = || publishers.iter().all(JoinHandle::is_finished);
    if await_of("the publishers", 2 * STUCK, all_sent).is_err() {
        let left = publishers.iter().filter(|own| !own.is_finished()).count();
        shared.ledger.fault(Kind::Stuck, &format!("{left} publishers do not finish"));
    }
    // As long as messages arrive.
    let (mut missing, mut since) = (usize::MAX, Instant::now());
    while missing > 0 && since.elapsed() < STUCK {
        thread::sleep(Duration::from_millis(100));
        let now = shared.ledger.missing();
        if now < missing {
            (missing, since) = (now, Instant::now());
        }
    }
    let expected = shared.kept.lock().map(|kept| kept.clone()).unwrap_or_default();
    for node in &shared.cluster.nodes {
        let mut found = BTreeMap::new();
        let agrees = await_of("the retained messages", STUCK, || {
            found = probes::retained(node, expected.len()).unwrap_or_default();
            found == expected
        });
        if agrees.is_err() {
            for (topic, number) in &expected {
                if found.get(topic) != Some(number) {
                    let found = found.get(topic);
                    let what = format!("{} has {found:?} at {topic}, not {number}", node.name);
                    shared.ledger.fault(Kind::Lost, &what);
                }
            }
        }
    }
}

/// Waits for a condition.
fn await_of(what: &str, limit: Duration, mut is: impl FnMut() -> bool) -> Result<(), String> {
    let begun = Instant::now();
    while !is() {
        if begun.elapsed() > limit {
            return Err(format!("{what} take longer than {} s", limit.as_secs()));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
