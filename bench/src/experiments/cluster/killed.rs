//! A node that is killed: the time until a client has its session at another node.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use super::Options;
use super::servers::{NODES, Servers, State};
use crate::error::Error;
use crate::experiments::broker::server::Home;
use crate::experiments::state::client::{Client, Lasts, WINDOW};
use crate::measure::{CpuTimes, MAX_FOREIGN_SHARE};
use crate::system::{Cores, Process, interrupted, is_interrupted};

/// Timeout of each answer to a client that continues its session. A node holds a CONNECT back for up to 5 s.
const ATTEMPT: Duration = Duration::from_secs(10);
/// Wait between two attempts to connect, and between two reads of the nodes' output.
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes of a queued message.
const PAYLOAD: usize = 1024;
/// Steps, and the lines of the adopting node that show them: it begins to adopt the sessions, and it has adopted them.
pub(super) const STEPS: [(&str, &str); 2] =
    [("detected", "node a is lost: reading its journal"), ("adopted", "sessions of node a in ")];

/// The kept sessions of a node, whose clients are away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Killed {
    sessions: usize,
    /// Messages in the queue of each session.
    queued: usize,
    /// Messages in flight while the queues are filled: the node stores as many with one write.
    window: usize,
}

/// The times from a kill.
pub(super) struct Times {
    /// Of the [`STEPS`], if a node says so.
    pub(super) steps: [Option<Duration>; 2],
    /// Until a client has its session and a message from its queue, or until it stops trying.
    pub(super) usable: Duration,
    /// The reason why it stopped.
    pub(super) reason: Option<String>,
    pub(super) is_noisy: bool,
}

impl fmt::Display for Killed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes() {
            bytes @ 1_000_000.. => write!(f, "killed with {:.0} MB queued", bytes as f64 / 1e6)?,
            bytes => write!(f, "killed with {:.0} KB queued", bytes as f64 / 1e3)?,
        }
        f.write_str(if self.window == 1 { " one by one" } else { "" })
    }
}

impl Killed {
    /// The cases. With one second for each 50 MB, the first two have goals that differ by four seconds. The messages of
    /// the third have a batch each.
    pub(super) fn all(quick: bool) -> [Self; 3] {
        let own = |queued, window| match quick {
            true => Self { sessions: 3, queued: queued / 100 + 1, window },
            false => Self { sessions: 100, queued, window },
        };
        [own(10, WINDOW), own(2000, WINDOW), own(200, 1)]
    }

    /// Payload in the queues.
    fn bytes(self) -> usize {
        self.sessions * self.queued * PAYLOAD
    }

    /// The goal, in seconds.
    pub(super) fn at_most(self) -> f64 {
        8.0 + self.bytes() as f64 / 50e6
    }

    /// Starts a cluster, fills the sessions of a node, kills it, and waits until a client has its session at another
    /// node.
    pub(super) fn measure(
        self,
        options: &Options,
        home: Home<'_>,
        cores: &Cores,
    ) -> Result<Times, Error> {
        eprintln!("{self}");
        let directory = tempfile::Builder::new().prefix("killed-").tempdir_in(home.directory)?;
        let home = Home { directory: directory.path(), ..home };
        let mut servers = Servers::start(State::Kept, options, home)?;
        self.fill(servers.nodes[0].address)?;
        let killed = servers.nodes.remove(0);
        let begun = Instant::now();
        drop(killed);
        let all = [servers.one.family.clone(), servers.families().concat()].concat();
        let before = CpuTimes::take(cores, &all)?;
        let limit = Duration::from_secs_f64(self.at_most() * 10.0);
        let (mut steps, nodes) = ([None; 2], &servers.nodes);
        let resumed = scope(|scope| {
            let resumed = scope.spawn(|| self.await_session(nodes, begun, limit));
            loop {
                let is_over = begun.elapsed() > limit || is_interrupted();
                let said = said(home.directory);
                for (step, (_, line)) in steps.iter_mut().zip(STEPS) {
                    *step = step.or_else(|| said.contains(line).then(|| begun.elapsed()));
                }
                if resumed.is_finished() && (is_over || steps[1].is_some()) {
                    return resumed.join().expect("it does not panic");
                }
                sleep(PAUSE);
            }
        });
        let (usable, reason) = resumed?;
        let foreign = before.foreign_until(&CpuTimes::take(cores, &all)?, cores);
        let reason = reason
            .map(|reason| format!("{reason}; {}", said(home.directory).trim().replace('\n', "; ")));
        Ok(Times { steps, usable, reason, is_noisy: foreign > MAX_FOREIGN_SHARE })
    }

    /// Makes the sessions, and publishes the messages for them.
    fn fill(self, at: SocketAddr) -> Result<(), Error> {
        for n in 0..self.sessions {
            // The connection ends, and the session stays.
            Client::connect(at, &name(n), Lasts::Hour)?.subscribe(&topic(n))?;
        }
        let count = (self.sessions * self.queued, self.window);
        let mut publisher = Client::connect(at, "filler", Lasts::Connection)?;
        publisher.publish(count, |n| topic(n % self.sessions), (PAYLOAD, false))
    }

    /// Connects the client of the last session until it has the session and a message. It has the addresses of all nodes.
    /// Returns how long it took, or the reason why it was not possible within the limit.
    fn await_session(
        self,
        nodes: &[Process],
        begun: Instant,
        limit: Duration,
    ) -> Result<(Duration, Option<String>), Error> {
        for node in nodes.iter().cycle() {
            interrupted()?;
            let own = name(self.sessions - 1);
            let client = Client::connect_within(ATTEMPT, node.address, &own, Lasts::Hour);
            let reason = match client.map(|client| (client.is_resumed, client)) {
                Ok((false, _)) => "the node has no session".to_owned(),
                Ok((true, mut client)) => match client.receive(1) {
                    Ok(0) => "the session has no message".to_owned(),
                    Ok(_) => return Ok((begun.elapsed(), None)),
                    Err(error) => error.to_string(),
                },
                Err(error) => error.to_string(),
            };
            if begun.elapsed() > limit {
                let reason = format!("not usable within {:.0} s: {reason}", limit.as_secs_f64());
                return Ok((begun.elapsed(), Some(reason)));
            }
            sleep(PAUSE);
        }
        Err(Error::NoServers)
    }
}

/// The lines of the living nodes on stderr.
fn said(directory: &Path) -> String {
    let of = |name| std::fs::read_to_string(directory.join(format!("{name}.err")));
    NODES[1..].iter().filter_map(|name| of(name).ok()).collect()
}

fn name(n: usize) -> String {
    format!("sleeper-{n}")
}

fn topic(n: usize) -> String {
    format!("sleepers/{n}")
}
