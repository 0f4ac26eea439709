//! Faults of a cluster, one after the other.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use fastrand::Rng;

use super::ledger::Kind;
use super::load::Shared;
use super::probes;
use super::relay::Mode;

/// Longest duration of a fault, in milliseconds.
const MAX_FAULT_MS: u64 = 9_000;

/// Time in which messages have to pass again.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Nemesis {
    /// A broker is killed, and started again.
    Kill,
    /// The threads of a broker are stopped, and continue.
    Stop,
    /// The connections of a broker to NATS, or to one of its servers, are cut: frozen, or closed.
    Cut,
    /// The machine of a broker and a NATS server is cut off from the others. Needs three NATS servers, and root for
    /// network namespaces.
    Split,
    /// A NATS server is killed, and started again.
    NatsKill,
    /// A NATS server is stopped, and continues.
    NatsStop,
    /// All brokers are restarted, one after the other.
    Restart,
}

impl fmt::Display for Nemesis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("no kind is hidden").get_name())
    }
}

/// A fault to cause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strike {
    kind: Nemesis,
    /// The number of the node.
    at: usize,
    /// Draws one of the NATS servers.
    server: usize,
    length: Duration,
    mode: Mode,
}

impl Strike {
    /// A random fault, or two at once at different nodes, of the first `nodes`.
    pub(super) fn draw(kinds: &[Nemesis], nodes: usize, random: &mut Rng) -> Vec<Self> {
        let mut one = |kinds: &[Nemesis], (at, choices): (usize, usize)| {
            let kind = *kinds.get(random.u64(..kinds.len().max(1) as u64) as usize)?;
            let length = Duration::from_millis(200 + random.u64(..MAX_FAULT_MS));
            let mode = if random.u64(..2) == 0 { Mode::Frozen } else { Mode::Closed };
            let at = at + random.u64(..choices as u64) as usize;
            let is_pair = random.u64(..3) == 0;
            let server = random.u64(..1 << 16) as usize;
            Some((Self { kind, at: at % nodes, server, length, mode }, is_pair))
        };
        let Some((first, is_pair)) = one(kinds, (0, nodes)) else { return Vec::new() };
        // A restart concerns all nodes.
        let other_kinds =
            kinds.iter().filter(|kind| ![first.kind, Nemesis::Restart].contains(kind));
        let other_kinds: Vec<_> = other_kinds.copied().collect();
        match first.kind {
            Nemesis::Restart => vec![first],
            _ if !is_pair => vec![first],
            _ => {
                let second = one(&other_kinds, (first.at + 1, nodes - 1));
                [first].into_iter().chain(second.map(|(strike, _)| strike)).collect()
            }
        }
    }

    /// Whether a node may lose its sessions by this fault, with this number of NATS servers.
    pub(super) fn may_cost_sessions(&self, servers: usize) -> bool {
        match self.kind {
            Nemesis::Kill | Nemesis::Stop | Nemesis::Split | Nemesis::Restart => true,
            Nemesis::Cut => !self.cuts_one(servers),
            Nemesis::NatsKill | Nemesis::NatsStop => false,
        }
    }

    /// Whether a cut concerns the path to one of several servers.
    fn cuts_one(&self, servers: usize) -> bool {
        servers > 1 && self.server.is_multiple_of(2)
    }

    /// Causes the fault, and ends it. Returns its description.
    ///
    /// # Errors
    /// If a process cannot be started again.
    pub(super) fn run(
        self,
        shared: &Shared,
        continued: &mut Option<Duration>,
    ) -> Result<String, String> {
        let Self { kind, at, server, length, mode } = self;
        let (nodes, servers) = (&shared.cluster.nodes, &shared.cluster.servers);
        let (node, start) = (&nodes[at], Instant::now());
        let rest = || thread::sleep(length.saturating_sub(start.elapsed()));
        let mut message = format!("{kind} {}", node.name);
        match kind {
            Nemesis::Kill => {
                node.process().kill();
                *continued = others_continue(shared, at, start);
                rest();
                node.process().start()?;
            }
            Nemesis::Stop => {
                node.process().stop();
                rest();
                node.process().resume();
            }
            Nemesis::Cut => {
                let is_first_only = self.cuts_one(servers.len());
                let from = if is_first_only { " from one server" } else { "" };
                message = format!("{message}{from} ({mode:?})");
                node.set_relays(mode, is_first_only);
                rest();
                node.set_relays(Mode::Open, false);
            }
            Nemesis::Split => {
                node.machine().set_link(false)?;
                rest();
                node.machine().set_link(true)?;
            }
            Nemesis::NatsKill => {
                let number = server % servers.len();
                message = format!("{kind} {}", number + 1);
                servers[number].kill();
                rest();
                servers[number].start()?;
            }
            Nemesis::NatsStop => {
                let number = server % servers.len();
                message = format!("{kind} {}", number + 1);
                servers[number].stop();
                rest();
                servers[number].resume();
            }
            Nemesis::Restart => {
                message = kind.to_string();
                for node in &nodes[..shared.disturbed_nodes] {
                    node.process().end()?;
                    node.process().start()?;
                }
            }
        }
        Ok(format!("{message} for {:.1} s", start.elapsed().as_secs_f64()))
    }
}

/// The time from the kill of a node until a client has connected to another one, subscribed, and received a message of
/// the third one.
fn others_continue(shared: &Shared, killed: usize, start: Instant) -> Option<Duration> {
    let nodes = &shared.cluster.nodes;
    let others: Vec<_> = (0..nodes.len()).filter(|n| *n != killed).collect();
    let [.., to, from] = others[..] else { return None };
    match probes::passes(&nodes[from], &nodes[to], LIMIT) {
        Ok(()) => Some(start.elapsed()),
        Err(error) => {
            let message =
                format!("the others do not continue without {}: {error}", nodes[killed].name);
            shared.ledger.fault(Kind::Stuck, &message);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_nats_alone_cost_no_sessions() {
        let (length, mode) = (Duration::ZERO, Mode::Frozen);
        let costs = |kind, server, servers| {
            Strike { kind, at: 0, server, length, mode }.may_cost_sessions(servers)
        };
        for kind in [Nemesis::NatsKill, Nemesis::NatsStop] {
            assert!(!costs(kind, 0, 1) && !costs(kind, 1, 3));
        }
        assert!(costs(Nemesis::Stop, 0, 3) && costs(Nemesis::Cut, 1, 3));
        assert!(costs(Nemesis::Split, 0, 3));
        assert!(costs(Nemesis::Cut, 0, 1) && !costs(Nemesis::Cut, 0, 3));
    }
}
