//! The load and the faults of a run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fastrand::Rng;
use phalanx_mqtt::QoS;

use super::ledger::Kind;
use super::load::{Publisher, STUCK, Shared, Subscriber, WINDOW, lock};
use super::nemesis::{LIMIT, Nemesis, Strike};
use super::probes;

/// Time after a fault of a node in which the loss of its sessions is noticed.
const DETECTION_TIME: Duration = Duration::from_secs(10);

/// Runs the load and the faults, and waits for the rest.
pub(super) fn disturb(
    shared: &Arc<Shared>,
    kinds: &[Nemesis],
    seconds: u64,
    random: &mut Rng,
    ending: &AtomicBool,
    continued: &mut Vec<Duration>,
) -> Result<(), String> {
    let nodes = 0..shared.cluster.nodes.len();
    // Members of a group may get a message again when a node is lost.
    let groups = if shared.sessions_kept { &[None][..] } else { &[None, Some("g")] };
    let mut subscribers = Vec::new();
    for node in nodes.clone() {
        for group in groups {
            let subscriber = Subscriber { shared: shared.clone(), node, number: 1, group: *group };
            shared.ledger.receives(&subscriber.receiver());
            subscribers.push(thread::spawn(move || subscriber.run()));
        }
    }
    await_subscribed(shared, subscribers.len())?;
    wait_for_delivery(shared);
    let supervised = shared.clone();
    let supervisor = thread::spawn(move || supervise(&supervised));
    let load = [(QoS::AtLeastOnce, false), (QoS::ExactlyOnce, false), (QoS::AtLeastOnce, true)];
    let publish = |node| {
        load.map(|(qos, is_retained)| {
            let publisher = Publisher { shared: shared.clone(), node, qos, is_retained };
            thread::spawn(move || publisher.run())
        })
    };
    let publishers: Vec<_> = nodes.flat_map(publish).collect();
    let (start, mut last_node_fault) = (Instant::now(), None);
    while start.elapsed() < Duration::from_secs(seconds) && !ending.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(200 + random.u64(..2_000)));
        replace_lost_subscribers(shared, &mut subscribers)?;
        let strikes = Strike::draw(kinds, shared.disturbed_nodes, random);
        if !strikes.is_empty() {
            let (at, servers) = (start.elapsed().as_secs_f64(), shared.cluster.servers.len());
            let is_of_node = strikes.iter().any(|inject| inject.may_cost_sessions(servers));
            let was_of_node =
                last_node_fault.is_some_and(|at: Instant| at.elapsed() < DETECTION_TIME);
            shared.may_lose.store(is_of_node || was_of_node, Ordering::Relaxed);
            let (descriptions, times) = inject(shared, &strikes)?;
            let passes = wait_for_delivery(shared);
            last_node_fault = if is_of_node { Some(Instant::now()) } else { last_node_fault };
            // With two faults, the other one delays it.
            let time = times.first().filter(|_| strikes.len() == 1);
            continued.extend(time);
            let time = time.map_or(String::new(), |time| {
                format!("the others continue after {:.1} s, ", time.as_secs_f64())
            });
            println!(
                "{at:6.1} s {}: {time}messages pass {:.1} s after it; {} accepted, {} missing",
                descriptions.join(" and "),
                passes.as_secs_f64(),
                shared.ledger.count(),
                shared.ledger.missing(),
            );
        }
        check_connectivity(shared);
        if let Some(node) = shared.cluster.nodes.iter().find(|node| !node.process().is_running()) {
            return Err(format!("node {} ended by itself", node.name));
        }
    }
    replace_retained(shared)?;
    shared.is_load_over.store(true, Ordering::Relaxed);
    finish(shared, &publishers);
    shared.is_complete.store(true, Ordering::Relaxed);
    for client in subscribers.into_iter().chain(publishers).chain([supervisor]) {
        client.join().map_err(|_| "a client panicked")?;
    }
    Ok(())
}

fn await_subscribed(shared: &Shared, count: usize) -> Result<(), String> {
    wait_until("the subscriptions", STUCK, || shared.subscribed.load(Ordering::Relaxed) >= count)
}

/// Begins a subscriber at each node that faults concern and that has none, because other nodes have adopted its sessions.
/// Clients that roam return there.
fn replace_lost_subscribers(
    shared: &Arc<Shared>,
    subscribers: &mut Vec<JoinHandle<()>>,
) -> Result<(), String> {
    for node in 0..if shared.roams.is_some() { 0 } else { shared.disturbed_nodes } {
        if lock(&shared.node_of_subscriber).values().any(|at| *at == node) {
            continue;
        }
        let number = subscribers.len() + 1;
        let subscriber = Subscriber { shared: shared.clone(), node, number, group: None };
        let receiver = subscriber.receiver();
        subscribers.push(thread::spawn(move || subscriber.run()));
        await_subscribed(shared, subscribers.len())?;
        shared.ledger.receives_from_now(&receiver, WINDOW);
    }
    Ok(())
}

/// Starts nodes again that have lost their sessions, as systemd does. Only those that faults concern may lose them, and
/// not by a fault of NATS.
fn supervise(shared: &Shared) {
    while !shared.is_complete.load(Ordering::Relaxed) {
        for (n, node) in shared.cluster.nodes.iter().enumerate() {
            let fault = match node.process().start_without_sessions() {
                Ok(false) => continue,
                Ok(true)
                    if n < shared.disturbed_nodes && shared.may_lose.load(Ordering::Relaxed) =>
                {
                    continue;
                }
                Ok(_) => format!("node {} lost its sessions without a fault of its own", node.name),
                Err(reason) => reason,
            };
            shared.ledger.fault(Kind::Stuck, &fault);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Causes faults at the same time. Returns their descriptions, and the times until the other nodes continued.
fn inject(shared: &Shared, strikes: &[Strike]) -> Result<(Vec<String>, Vec<Duration>), String> {
    let run = |strike: &Strike| {
        let mut continued = None;
        strike.run(shared, &mut continued).map(|message| (message, continued))
    };
    let results: Vec<_> = thread::scope(|scope| {
        let all: Vec<_> = strikes.iter().map(|strike| scope.spawn(|| run(strike))).collect();
        all.into_iter()
            .map(|handle| handle.join().map_err(|_| "a fault panicked".to_owned())?)
            .collect()
    });
    let results = results.into_iter().collect::<Result<Vec<_>, String>>()?;
    let (descriptions, times): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    Ok((descriptions, times.into_iter().flatten().collect()))
}

/// Waits until messages pass between all nodes. Returns the time.
fn wait_for_delivery(shared: &Shared) -> Duration {
    let start = Instant::now();
    for_pairs(shared, |from, to| probes::passes(from, to, LIMIT));
    start.elapsed()
}

/// Checks that apply while there is no fault.
fn check_connectivity(shared: &Shared) {
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
                let message = format!("from {} to {}: {error}", from.name, to.name);
                shared.ledger.fault(Kind::Stuck, &message);
            }
        }
    }
}

/// Waits until there are newer retained messages. A node that joins while they are published may have earlier ones until
/// then.
fn replace_retained(shared: &Shared) -> Result<(), String> {
    let before = lock(&shared.kept).clone();
    wait_until("newer retained messages", STUCK, || {
        let now = lock(&shared.kept);
        before.iter().all(|(topic, number)| now.get(topic) != Some(number))
    })
}

/// Waits until everything has arrived, and compares the retained messages.
fn finish(shared: &Shared, publishers: &[JoinHandle<()>]) {
    let all_sent = || publishers.iter().all(JoinHandle::is_finished);
    if wait_until("the publishers", 2 * STUCK, all_sent).is_err() {
        let unfinished = publishers.iter().filter(|handle| !handle.is_finished()).count();
        shared.ledger.fault(Kind::Stuck, &format!("{unfinished} publishers do not finish"));
    }
    // As long as messages arrive.
    let (mut missing, mut last_progress) = (usize::MAX, Instant::now());
    while missing > 0 && last_progress.elapsed() < STUCK {
        thread::sleep(Duration::from_millis(100));
        let now = shared.ledger.missing();
        if now < missing {
            (missing, last_progress) = (now, Instant::now());
        }
    }
    let expected = shared.kept.lock().map(|kept| kept.clone()).unwrap_or_default();
    for node in &shared.cluster.nodes {
        let mut found = BTreeMap::new();
        let agrees = wait_until("the retained messages", STUCK, || {
            found = probes::retained(node, expected.len()).unwrap_or_default();
            found == expected
        });
        if agrees.is_err() {
            for (topic, number) in &expected {
                if found.get(topic) != Some(number) {
                    let found = found.get(topic);
                    let message = format!("{} has {found:?} at {topic}, not {number}", node.name);
                    shared.ledger.fault(Kind::Lost, &message);
                }
            }
        }
    }
}

/// Waits for a condition.
fn wait_until(
    name: &str,
    limit: Duration,
    mut predicate: impl FnMut() -> bool,
) -> Result<(), String> {
    let start = Instant::now();
    while !predicate() {
        if start.elapsed() > limit {
            return Err(format!("{name} take longer than {} s", limit.as_secs()));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
