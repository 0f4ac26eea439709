//! Faults of a cluster, one after the other.

use std::fmt;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use super::load::Shared;
use super::probes;
use super::relay::Mode;

/// Longest duration of a fault, in milliseconds.
const LONGEST: u64 = 9_000;

/// Time in which messages have to pass again.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nemesis {
    /// A broker is killed, and started again.
    Kill,
    /// The threads of a broker are stopped, and continue.
    Stop,
    /// The connection of a broker to NATS is cut: frozen, or closed.
    Cut,
    /// nats-server is killed, and started again.
    NatsKill,
    /// All brokers are restarted, one after the other.
    Restart,
}

impl Nemesis {
    pub(super) const ALL: [Self; 5] =
        [Self::Kill, Self::Stop, Self::Cut, Self::NatsKill, Self::Restart];

    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Cut => "cut",
            Self::NatsKill => "nats-kill",
            Self::Restart => "restart",
        }
    }
}

impl FromStr for Nemesis {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|own| own.name() == text);
        let names = Self::ALL.map(Self::name).join(",");
        known.ok_or_else(|| format!("unknown nemesis `{text}`; known are {names}"))
    }
}

impl fmt::Display for Nemesis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reproducible random numbers (xorshift).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// One fault, and its end.
pub(super) struct Fault {
    /// Its description.
    pub(super) what: String,
    /// Time from the kill of a node until a client has connected to another node, subscribed, and received a message
    /// of the third one.
    pub(super) failover: Option<Duration>,
}

/// Causes a fault, and ends it.
///
/// # Errors
/// If a process cannot be started again.
pub(super) fn strike(shared: &Shared, kind: Nemesis, random: &mut Random) -> Result<Fault, String> {
    let nodes = &shared.cluster.nodes;
    let at = random.below(nodes.len() as u64) as usize;
    let (node, length) = (&nodes[at], Duration::from_millis(200 + random.below(LONGEST)));
    let begun = Instant::now();
    let until = |begun: Instant| thread::sleep(length.saturating_sub(begun.elapsed()));
    let mut failover = None;
    let mut what = format!("{kind} {}", node.name);
    match kind {
        Nemesis::Kill => {
            node.process().kill();
            if let [.., to, from] = &others(nodes.len(), at)[..] {
                match probes::passes(&nodes[*from], &nodes[*to], LIMIT) {
                    Ok(()) => failover = Some(begun.elapsed()),
                    Err(error) => {
                        let what = format!("no failover from {}: {error}", node.name);
                        shared.ledger.fault(super::ledger::Kind::Stuck, &what);
                    }
                }
            }
            until(begun);
            node.process().start()?;
        }
        Nemesis::Stop => {
            node.process().stop();
            until(begun);
            node.process().resume();
        }
        Nemesis::Cut => {
            let mode = if random.below(2) == 0 { Mode::Frozen } else { Mode::Closed };
            what = format!("{what} ({mode:?})");
            node.relay.set(mode);
            until(begun);
            node.relay.set(Mode::Open);
        }
        Nemesis::NatsKill => {
            what = kind.to_string();
            shared.cluster.nats.kill();
            until(begun);
            shared.cluster.nats.start()?;
        }
        Nemesis::Restart => {
            what = kind.to_string();
            for node in nodes {
                node.process().end()?;
                node.process().start()?;
            }
        }
    }
    Ok(Fault { what: format!("{what} for {:.1} s", begun.elapsed().as_secs_f64()), failover })
}

/// All nodes but one.
fn others(count: usize, but: usize) -> Vec<usize> {
    (0..count).filter(|n| *n != but).collect()
}
