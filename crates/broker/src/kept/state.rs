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
pub(crate) const ELECTION_TIME: Duration = Duration::from_secs(12);

/// How often leases are renewed and read within the timeout.
pub(crate) const RENEWALS_PER_TIMEOUT: u32 = 5;

/// The number of remembered adoptions. They matter while NATS may still deliver claims of the lost node, which is for
/// seconds.
const MAX_ADOPTED: usize = 1000;

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
    /// `None` until the name is known.
    own_journal: Option<JournalName>,
    last_renewal: Duration,
    /// The time of the first renewal since the last gap.
    renewing_since: Duration,
    /// The journals of other nodes that are not adopted.
    others: BTreeMap<JournalName, OtherJournal>,
    /// The journals that were adopted, as long as NATS has their leases, and the journals of the adopting nodes.
    adopted_journals: BTreeMap<String, String>,
    /// The starts of the last [`MAX_ADOPTED`] nodes whose sessions this node has adopted or is adopting.
    adopted: VecDeque<String>,
    /// The clients whose sessions this node is adopting.
    arriving: HashSet<Arc<str>>,
    /// The clients of the handovers that came with the sessions that are being added; `None` while none are.
    deferred: Option<HashSet<Arc<str>>>,
    are_others_known: bool,
    /// The last logged lines, about each journal of another node and about this node. A repeated attempt does not log
    /// the same line again.
    last_line_about: BTreeMap<JournalName, String>,
    last_line: String,
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
        state.phase == Phase::Open && now().saturating_sub(state.last_renewal) <= self.timeout()
    }

    /// Why this node has lost its sessions; `None` if it has not.
    pub(crate) fn lost_reason(&self) -> Option<String> {
        match &lock(&self.state).phase {
            Phase::Fenced(reason) => Some(reason.clone()),
            _ => None,
        }
    }

    /// Waits until this node owns its sessions. Returns false if it has lost them, or shuts down.
    pub(crate) async fn wait_until_open(&self) -> bool {
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
    pub(crate) async fn wait_until_fenced(&self) -> String {
        loop {
            let receiver = {
                let mut state = lock(&self.state);
                if let Phase::Fenced(reason) = &state.phase {
                    return reason.clone();
                }
                state.wait()
            };
            receiver.await;
        }
    }

    pub(crate) fn set_own_journal(&self, journal: JournalName) {
        lock(&self.state).own_journal = Some(journal);
    }

    /// `None` until the name is known.
    pub(crate) fn own_journal(&self) -> Option<JournalName> {
        lock(&self.state).own_journal.clone()
    }

    /// Records that the stream has the whole journal, so that clients may connect.
    pub(crate) fn open(&self) {
        let mut state = lock(&self.state);
        if state.phase == Phase::Opening {
            state.phase = Phase::Open;
            state.wake();
        }
        drop(state);
        self.log_once("sessions are kept in NATS");
    }

    /// Records that this node has lost its sessions.
    pub(crate) fn fence(&self, reason: &str) {
        let mut state = lock(&self.state);
        if !matches!(state.phase, Phase::Fenced(_)) {
            state.phase = Phase::Fenced(reason.to_owned());
            state.wake();
        }
        drop(state);
        self.log_once(&format!("this node has lost its sessions: {reason}"));
    }

    /// Whether NATS has lost batches of this node's journal, which have to be sent again.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    pub(crate) fn set_behind(&self, is_behind: bool) {
        self.is_behind.store(is_behind, Ordering::Relaxed);
    }

    /// Records that a request sent at this time renewed the lease.
    pub(crate) fn record_renewal(&self, at: Duration) {
        let mut state = lock(&self.state);
        if at.saturating_sub(state.last_renewal) > self.renewal_gap() {
            state.renewing_since = at;
        }
        state.last_renewal = at;
    }

    /// Time until the lease expires, unless it is renewed.
    pub(crate) fn lease_time_left(&self) -> Duration {
        (self.last_renewal() + self.timeout()).saturating_sub(now())
    }

    pub(crate) fn last_renewal(&self) -> Duration {
        lock(&self.state).last_renewal
    }

    /// Whether the last renewal is recent enough that other nodes could also renew their leases.
    pub(crate) fn has_renewed_recently(&self) -> bool {
        now().saturating_sub(self.last_renewal()) <= self.renewal_gap()
    }

    /// The time since which the lease has been renewed without a gap, so that other nodes could also renew theirs. The
    /// current time if it was not renewed lately.
    pub(crate) fn renewing_since(&self) -> Duration {
        match self.has_renewed_recently() {
            true => lock(&self.state).renewing_since,
            false => now(),
        }
    }

    /// The longest time between two renewals that is not a gap. In a longer one, NATS may have been unavailable.
    fn renewal_gap(&self) -> Duration {
        2 * self.timeout() / RENEWALS_PER_TIMEOUT
    }

    /// Changes the known journals of other nodes.
    pub(crate) fn with_others<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<JournalName, OtherJournal>) -> T,
    ) -> T {
        change(&mut lock(&self.state).others)
    }

    /// Records that this node adopts the sessions of the node with this start, if it is known.
    pub(crate) fn add_adopted(&self, start: &str) {
        if !start.is_empty() {
            let adopted = &mut lock(&self.state).adopted;
            // A repeated adoption is already in the list.
            adopted.retain(|known| known != start);
            if adopted.len() == MAX_ADOPTED {
                adopted.pop_front();
            }
            adopted.push_back(start.to_owned());
        }
    }

    /// Records that this node has abandoned an adoption of which it has no session.
    pub(crate) fn remove_adopted(&self, start: &str) {
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

    pub(crate) fn remove_deferred(&self, client: &str) {
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
        let own_journal = state.own_journal.as_ref().map(JournalName::to_string);
        let is_own = |other: &OtherJournal| Some(&other.lease.holder) == own_journal.as_ref();
        match &state.deferred {
            Some(clients) => clients.contains(client),
            None => {
                let adopted = handover_of(client).map(|(journal, _)| journal);
                let adopter = adopted.and_then(|journal| state.adopted_journals.get(journal));
                !state.are_others_known
                    || state.others.values().any(is_own) && adopter != own_journal.as_ref()
            }
        }
    }

    pub(crate) fn set_others_known(&self) {
        lock(&self.state).are_others_known = true;
    }

    /// The names of other nodes' journals that are not adopted; `None` until they are known.
    pub(crate) fn other_journals(&self) -> Option<BTreeSet<String>> {
        lock(&self.state).other_journals()
    }

    /// Sets the journals that were adopted, each with the journal of the adopting node.
    pub(crate) fn set_adopted(&self, journals: BTreeMap<String, String>) {
        lock(&self.state).adopted_journals = journals;
    }

    /// The names of other nodes' journals that are not adopted, and of those that are; `None` until they are known. A journal
    /// whose lease an operator has deleted is in neither list.
    pub(crate) fn leased_and_adopted(&self) -> Option<(BTreeSet<String>, BTreeSet<String>)> {
        let state = lock(&self.state);
        Some((state.other_journals()?, state.adopted_journals.keys().cloned().collect()))
    }

    /// The state at `now`, as shown to operators.
    pub(crate) fn view(&self, now: Duration) -> KeptView {
        let state = lock(&self.state);
        let seconds = |since: Duration| now.saturating_sub(since).as_secs();
        let own_journal = state.own_journal.as_ref().map(|journal| LeaseView {
            journal: journal.to_string(),
            holder: journal.to_string(),
            seconds: seconds(state.last_renewal),
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
            leases: own_journal.into_iter().chain(others).collect(),
        }
    }

    #[cfg(test)]
    pub(crate) fn last_line(&self) -> String {
        lock(&self.state).last_line.clone()
    }

    #[cfg(test)]
    pub(crate) fn last_line_about(&self, journal: &JournalName) -> Option<String> {
        lock(&self.state).last_line_about.get(journal).cloned()
    }

    /// Logs a line, unless it repeats the last one.
    pub(crate) fn log_once(&self, line: &str) {
        log_if_new(line, &mut lock(&self.state).last_line);
    }

    /// Logs a line about another node's journal, unless it repeats the last one about that journal. Returns whether it
    /// did.
    pub(crate) fn log_once_about(&self, journal: &JournalName, line: &str) -> bool {
        let state = &mut *lock(&self.state);
        let State { others, last_line_about, .. } = state;
        last_line_about.retain(|known, _| known == journal || others.contains_key(known));
        log_if_new(line, last_line_about.entry(journal.clone()).or_default())
    }
}

/// Returns whether the line was logged.
fn log_if_new(line: &str, last: &mut String) -> bool {
    let is_new = *last != line && !is_draining();
    if is_new {
        report(format_args!("cluster: {line}"));
        line.clone_into(last);
    }
    is_new
}

impl State {
    fn other_journals(&self) -> Option<BTreeSet<String>> {
        self.are_others_known.then(|| self.others.keys().map(JournalName::to_string).collect())
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
