//! The state of kept sessions: whether this node owns its sessions, and the journals of other nodes.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::runtime::report;
use phalanx::select;
use phalanx::shutdown::{draining, is_draining};
use phalanx::sync::oneshot;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx_nats::Access;

use crate::cluster_names::{ClusterNames, JournalName};
use crate::config::Cluster;
use crate::kept::lease::Record;
use crate::kept::questions::Questions;
use crate::lock::lock;
use crate::peers::handovers::handover_of;
use crate::peers::{KeptMetrics, KeptView, LeaseView};

/// Time that the replicas of a stream may take to elect a leader and to store the waiting messages.
pub(crate) const ELECTION: Duration = Duration::from_secs(12);

/// The interval at which leases are renewed and read, as a fraction of the timeout.
pub(crate) const RENEWALS: u32 = 5;

/// The number of remembered adoptions. They matter while NATS may still deliver claims of the lost node, which is for
/// seconds.
const ADOPTED: usize = 1000;

/// The state of the kept sessions.
pub(crate) struct Kept {
    pub(crate) names: ClusterNames,
    pub(crate) cluster: Cluster,
    /// Identifies this process: each start of the node has another value.
    pub(crate) start: String,
    pub(crate) questions: Questions,
    pub(crate) metrics: KeptMetrics,
    /// Whether NATS has lost batches of this node's journal.
    is_behind: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    phase: Phase,
    waiting: Vec<oneshot::Sender<()>>,
    /// The name of this node's journal, once known.
    own: Option<JournalName>,
    /// The time of the last renewal of this node's lease.
    renewed: Duration,
    /// The time of the first renewal since the last gap.
    renewing_since: Duration,
    /// The journals of other nodes that are not adopted.
    others: BTreeMap<JournalName, OtherJournal>,
    /// The journals that were adopted, as long as NATS has their leases, and the journals of the adopting nodes.
    adopted_journals: BTreeMap<String, String>,
    /// The starts of the last [`ADOPTED`] nodes whose sessions this node has adopted or is adopting.
    adopted: VecDeque<String>,
    /// The clients whose sessions this node is adopting.
    arriving: HashSet<Arc<str>>,
    /// The clients of the handovers that came with the sessions that are being added; `None` while none are.
    deferred: Option<HashSet<Arc<str>>>,
    /// Whether the other nodes' journals are known.
    has_looked: bool,
    /// The last printed lines, about each journal of another node and about this node. A repeated attempt does not print
    /// the same line again.
    told_of: BTreeMap<JournalName, String>,
    told: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The lease is not taken, or the stream is not complete.
    #[default]
    Opening,
    Open,
    /// Another node has the sessions.
    Fenced(String),
}

/// A journal that is not adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherJournal {
    pub(crate) lease: Record,
    /// The last known start of the journal's own node; empty if unknown.
    pub(crate) start: String,
    /// This process cannot read the stream.
    pub(crate) is_unreadable: bool,
    /// The number of the lease's last message, and when it was first seen.
    pub(crate) number: u64,
    pub(crate) since: Duration,
}

impl Kept {
    pub(crate) fn new(cluster: &Cluster, start: &str, metrics: KeptMetrics) -> Arc<Self> {
        Arc::new(Self {
            names: ClusterNames { cluster: cluster.name.clone(), replicas: cluster.replicas() },
            cluster: cluster.clone(),
            start: start.to_owned(),
            questions: Questions::default(),
            metrics,
            is_behind: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    /// A lease that is not renewed for this time has expired, and another node may take it.
    pub(crate) fn timeout(&self) -> Duration {
        self.cluster.timeout
    }

    /// The name of this node, and the addresses and credentials for NATS. May block.
    pub(crate) fn identity(&self) -> Result<(Arc<str>, Access), String> {
        Ok((self.cluster.node_name()?, self.cluster.access()?))
    }

    /// Whether clients may connect: this node owns its sessions, and has renewed its lease recently.
    pub(crate) fn is_open(&self) -> bool {
        let state = lock(&self.state);
        state.phase == Phase::Open && now().saturating_sub(state.renewed) <= self.timeout()
    }

    /// Why this node has lost its sessions; `None` if it has not.
    pub(crate) fn lost(&self) -> Option<String> {
        match &lock(&self.state).phase {
            Phase::Fenced(why) => Some(why.clone()),
            _ => None,
        }
    }

    /// Waits until this node owns its sessions. Returns false if it has lost them, or shuts down.
    pub(crate) async fn opened(&self) -> bool {
        loop {
            let receiver = {
                let mut state = lock(&self.state);
                match state.phase {
                    Phase::Open => return true,
                    Phase::Fenced(_) => return false,
                    Phase::Opening => state.wait(),
                }
            };
            if let Either::Right(()) = select(receiver, Box::pin(draining())).await {
                return false;
            }
        }
    }

    /// Waits until this node has lost its sessions. Returns the reason.
    pub(crate) async fn fenced(&self) -> String {
        loop {
            let receiver = {
                let mut state = lock(&self.state);
                if let Phase::Fenced(why) = &state.phase {
                    return why.clone();
                }
                state.wait()
            };
            receiver.await;
        }
    }

    /// Sets the name of this node's journal.
    pub(crate) fn is_named(&self, journal: JournalName) {
        lock(&self.state).own = Some(journal);
    }

    /// This node's journal, once it is known.
    pub(crate) fn own(&self) -> Option<JournalName> {
        lock(&self.state).own.clone()
    }

    /// Records that the stream has the whole journal, so that clients may connect.
    pub(crate) fn is_complete(&self) {
        let mut state = lock(&self.state);
        if state.phase == Phase::Opening {
            state.phase = Phase::Open;
            state.wake();
        }
        drop(state);
        self.tell("sessions are kept in NATS");
    }

    /// Records that this node has lost its sessions.
    pub(crate) fn fence(&self, why: &str) {
        let mut state = lock(&self.state);
        if !matches!(state.phase, Phase::Fenced(_)) {
            state.phase = Phase::Fenced(why.to_owned());
            state.wake();
        }
        drop(state);
        self.tell(&format!("this node has lost its sessions: {why}"));
    }

    /// Whether NATS has lost batches of this node's journal, which have to be sent again.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    pub(crate) fn set_behind(&self, is_behind: bool) {
        self.is_behind.store(is_behind, Ordering::Relaxed);
    }

    /// Records that a request sent at this time renewed the lease.
    pub(crate) fn is_renewed(&self, at: Duration) {
        let mut state = lock(&self.state);
        if at.saturating_sub(state.renewed) > self.renewal_gap() {
            state.renewing_since = at;
        }
        state.renewed = at;
    }

    /// Time until the lease expires, unless it is renewed.
    pub(crate) fn lease_left(&self) -> Duration {
        (self.renewed() + self.timeout()).saturating_sub(now())
    }

    /// The time of the last renewal.
    pub(crate) fn renewed(&self) -> Duration {
        lock(&self.state).renewed
    }

    /// Whether the lease was renewed a moment ago. If so, other nodes could also renew theirs.
    pub(crate) fn has_renewed_lately(&self) -> bool {
        now().saturating_sub(self.renewed()) <= self.renewal_gap()
    }

    /// The time since which the lease has been renewed without a gap, so that other nodes could also renew theirs. The
    /// current time if it was not renewed lately.
    pub(crate) fn renewing_since(&self) -> Duration {
        match self.has_renewed_lately() {
            true => lock(&self.state).renewing_since,
            false => now(),
        }
    }

    /// The longest time between two renewals that is not a gap. In a longer one, NATS may have been unavailable.
    fn renewal_gap(&self) -> Duration {
        2 * self.timeout() / RENEWALS
    }

    /// Changes the known journals of other nodes.
    pub(crate) fn others<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<JournalName, OtherJournal>) -> T,
    ) -> T {
        change(&mut lock(&self.state).others)
    }

    /// Records that this node adopts the sessions of the node with this start, if it is known.
    pub(crate) fn adopts(&self, start: &str) {
        if !start.is_empty() {
            let adopted = &mut lock(&self.state).adopted;
            // A repeated adoption is already in the list.
            adopted.retain(|known| known != start);
            if adopted.len() == ADOPTED {
                adopted.pop_front();
            }
            adopted.push_back(start.to_owned());
        }
    }

    /// Records that this node has abandoned an adoption of which it has no session.
    pub(crate) fn leaves(&self, start: &str) {
        lock(&self.state).adopted.retain(|known| known != start);
    }

    /// Whether this node has adopted, or is adopting, the sessions of the node with this start.
    pub(crate) fn has_adopted(&self, start: &str) -> bool {
        lock(&self.state).adopted.iter().any(|adopted| adopted == start)
    }

    /// Sets the clients whose sessions this node is adopting.
    pub(crate) fn set_arriving(&self, clients: HashSet<Arc<str>>) {
        lock(&self.state).arriving = clients;
    }

    /// Whether this node is adopting the session of a client. Such a client has to wait: if it connected before all
    /// sessions are adopted, the remaining ones could miss its messages.
    pub(crate) fn is_arriving(&self, client: &str) -> bool {
        lock(&self.state).arriving.contains(client)
    }

    /// Sets the clients of the handovers that came with the sessions that are being added; `None` while none are.
    pub(crate) fn set_deferred(&self, clients: Option<HashSet<Arc<str>>>) {
        lock(&self.state).deferred = clients;
    }

    /// Removes one of them.
    pub(crate) fn undefer(&self, client: &str) {
        lock(&self.state).deferred.as_mut().map(|clients| clients.remove(client));
    }

    /// Whether a handover with this client came with the sessions that are being added.
    pub(crate) fn is_being_added(&self, client: &str) -> bool {
        lock(&self.state).deferred.as_ref().is_some_and(|clients| clients.contains(client))
    }

    /// Whether a handover with this client has to wait, because the sessions that get the messages are still to be added.
    /// Also until this process has continued an adoption that it began before a restart, unless this node had completed
    /// the adoption of the handover.
    pub(crate) fn is_deferred(&self, client: &str) -> bool {
        let state = lock(&self.state);
        let own = state.own.as_ref().map(JournalName::to_string);
        let is_own = |other: &OtherJournal| Some(&other.lease.holder) == own.as_ref();
        match &state.deferred {
            Some(clients) => clients.contains(client),
            None => {
                let adopted = handover_of(client).map(|(journal, _)| journal);
                let adopter = adopted.and_then(|journal| state.adopted_journals.get(journal));
                !state.has_looked || state.others.values().any(is_own) && adopter != own.as_ref()
            }
        }
    }

    /// Records that the journals of other nodes are known.
    pub(crate) fn has_looked(&self) {
        lock(&self.state).has_looked = true;
    }

    /// The names of other nodes' journals that are not adopted; `None` until they are known.
    pub(crate) fn journals(&self) -> Option<BTreeSet<String>> {
        lock(&self.state).journals()
    }

    /// Sets the journals that were adopted, each with the journal of the adopting node.
    pub(crate) fn set_adopted(&self, journals: BTreeMap<String, String>) {
        lock(&self.state).adopted_journals = journals;
    }

    /// The names of other nodes' journals that are not adopted, and of those that are; `None` until they are known. A journal
    /// whose lease an operator has deleted is in neither list.
    pub(crate) fn leased_and_adopted(&self) -> Option<(BTreeSet<String>, BTreeSet<String>)> {
        let state = lock(&self.state);
        Some((state.journals()?, state.adopted_journals.keys().cloned().collect()))
    }

    /// The state at `now`, as shown to operators.
    pub(crate) fn view(&self, now: Duration) -> KeptView {
        let state = lock(&self.state);
        let seconds = |since: Duration| now.saturating_sub(since).as_secs();
        let own = state.own.as_ref().map(|journal| LeaseView {
            journal: journal.to_string(),
            holder: journal.to_string(),
            seconds: seconds(state.renewed),
        });
        let others = state.others.iter().map(|(journal, other)| LeaseView {
            journal: journal.to_string(),
            holder: other.lease.holder.clone(),
            seconds: seconds(other.since),
        });
        KeptView {
            owned: self.metrics.owns.get() == 1,
            lag_bytes: self.metrics.lag.get(),
            adopted_total: self.metrics.adopted.count(),
            moved_total: self.metrics.moved.count(),
            leases: own.into_iter().chain(others).collect(),
        }
    }

    /// The line that was printed last.
    #[cfg(test)]
    pub(crate) fn told(&self) -> String {
        lock(&self.state).told.clone()
    }

    /// The line about another node's journal that was printed last.
    #[cfg(test)]
    pub(crate) fn told_of(&self, journal: &JournalName) -> Option<String> {
        lock(&self.state).told_of.get(journal).cloned()
    }

    /// Prints a line, unless it was the last one.
    pub(crate) fn tell(&self, line: &str) {
        print(line, &mut lock(&self.state).told);
    }

    /// Prints a line about another node's journal, unless it was the last one about that journal. Returns whether it did.
    pub(crate) fn tell_of(&self, journal: &JournalName, line: &str) -> bool {
        let state = &mut *lock(&self.state);
        let State { others, told_of, .. } = state;
        told_of.retain(|own, _| own == journal || others.contains_key(own));
        print(line, told_of.entry(journal.clone()).or_default())
    }
}

/// Prints a line, unless it was the last one. Returns whether it did.
fn print(line: &str, last: &mut String) -> bool {
    let is_new = *last != line && !is_draining();
    if is_new {
        report(format_args!("cluster: {line}"));
        line.clone_into(last);
    }
    is_new
}

impl State {
    fn journals(&self) -> Option<BTreeSet<String>> {
        self.has_looked.then(|| self.others.keys().map(JournalName::to_string).collect())
    }

    fn wait(&mut self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::shared();
        self.waiting.push(sender);
        receiver
    }

    fn wake(&mut self) {
        self.waiting.drain(..).for_each(|sender| sender.send(()));
    }
}
