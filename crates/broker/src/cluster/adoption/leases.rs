//! The leases as last read, and their restoration.
//!
//! If NATS loses all leases, the creation time of their stream changes. Running nodes write their own leases again, and
//! this node writes the others:
//! - Those of lost nodes: otherwise clients would begin new sessions, although the lost nodes' disks have their sessions.
//! - Those of adopted journals: otherwise a lost node that returns would continue sessions that another node has.
//!
//! The lease of an adopted journal tells the lost node of the adoption. It is removed a day after the node has begun
//! another journal.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use phalanx::time::now;
use phalanx_nats::{Expected, JetStream};

use crate::cluster::adoption::adopt::has_stream;
use crate::cluster_names::{ClusterNames, JournalName};
use crate::kept::lease::{Record, StepError};
use crate::kept::state::{Kept, OtherJournal};

/// Time for which the lease of an adopted journal is kept once its node has another journal.
const LEASE_RETENTION: Duration = Duration::from_secs(24 * 3600);

/// The leases as last read.
#[derive(Default)]
pub(in crate::cluster) struct Leases {
    /// The message number from which leases have to be read, if any are known. Leases of adopted journals do not change.
    pub(in crate::cluster) from: Option<u64>,
    /// The creation time of the stream, and whether NATS has lost leases that are not restored yet.
    created: String,
    are_lost: bool,
    /// When the leases were last read successfully.
    last_read: Duration,
    adopted: BTreeMap<JournalName, Adopted>,
}

/// The lease of an adopted journal.
struct Adopted {
    record: Record,
    /// Whether NATS has had this lease.
    is_seen: bool,
    /// When its node was first seen with another journal.
    since: Option<Duration>,
}

/// The leases of other nodes' journals that are not adopted: their numbers and contents.
pub(in crate::cluster) type FoundLeases = BTreeMap<JournalName, (u64, Record)>;

impl Leases {
    /// The creation time of the stream of leases, as last read.
    pub(in crate::cluster) fn created(&self) -> &str {
        &self.created
    }

    /// The journals that were adopted, each with the journal of the adopting node.
    pub(in crate::cluster) fn adopted(&self) -> BTreeMap<String, String> {
        let all = self.adopted.iter();
        all.map(|(journal, adopted)| (journal.to_string(), adopted.record.holder.clone())).collect()
    }

    /// Forgets the lease of an adopted journal that was removed.
    pub(in crate::cluster) fn forget(&mut self, journal: &JournalName) {
        self.adopted.remove(journal);
    }

    /// Reads the leases that may have changed. Reads all leases until those that NATS has lost are restored.
    pub(in crate::cluster) async fn read(
        &mut self,
        kept: &Kept,
        streams: &JetStream,
    ) -> Result<FoundLeases, StepError> {
        let (stream, filter) = (kept.names.leases().name, kept.names.all_leases());
        let started = now();
        loop {
            let before = self.from;
            let (mut found, mut adopted) = (FoundLeases::new(), BTreeSet::new());
            let mut next = before.unwrap_or(1);
            // The leader has to answer, because a replica that lags behind may lack the lease of a running node.
            while let Some(lease) = streams.current_next(&stream, next, &filter).await? {
                next = lease.number + 1;
                let journal = ClusterNames::journal_of(&lease.subject);
                let record = serde_json::from_slice::<Record>(&lease.payload).ok();
                let (Some(journal), Some(record)) = (journal, record) else { continue };
                if record.is_adopted {
                    found.remove(&journal);
                    adopted.insert(journal.clone());
                    let own = Adopted { record, is_seen: true, since: None };
                    self.adopted.entry(journal).or_insert(own).is_seen = true;
                } else {
                    found.insert(journal, (lease.number, record));
                }
            }
            // Read after the leases, so that they cannot be from a stream that was created later.
            let created = streams.state(&stream).await?.created;
            if self.created != created {
                self.are_lost |= !self.created.is_empty();
                self.created = created;
                self.from = None;
                continue;
            }
            if self.are_lost {
                self.restore_adopted(kept, streams, &mut found, &adopted).await?;
                self.restore_others(kept, streams, &mut found).await?;
                self.are_lost = false;
            }
            self.from = found.values().map(|(number, _)| *number).min();
            if self.from.is_some() || before.is_none() {
                self.last_read = started;
                // An operator has given these journals back to their nodes.
                self.adopted.retain(|journal, _| !found.contains_key(journal));
                if let Some(own) = kept.own_journal() {
                    found.remove(&own);
                }
                return Ok(found);
            }
            // Not even this node's own lease was found: NATS has lost its data, and numbers begin again. Read from the
            // start.
        }
    }

    /// Restores the leases of adopted journals. A lost node that has taken its lease back meanwhile loses it, unless an
    /// operator has given its sessions back.
    async fn restore_adopted(
        &mut self,
        kept: &Kept,
        streams: &JetStream,
        found: &mut FoundLeases,
        adopted: &BTreeSet<JournalName>,
    ) -> Result<(), StepError> {
        // A node takes a lease that NATS has lost, or that another node has restored, only after the timeout. So a node
        // that is found with its lease this soon did not take it: an operator gave it back.
        let was_read_recently = now().saturating_sub(self.last_read) < kept.timeout() / 2;
        // Applied before any step that can fail, because the next read may come too late for this conclusion.
        self.adopted.retain(|journal, Adopted { is_seen, .. }| {
            let is_its_nodes = found.get(journal).is_some_and(|(_, lease)| {
                lease.holder == journal.to_string() && !lease.is_incomplete
            });
            !(is_its_nodes && *is_seen && was_read_recently) || adopted.contains(journal)
        });
        let mut restored = Ok(());
        for (journal, Adopted { record, .. }) in &self.adopted {
            if adopted.contains(journal) {
                continue;
            }
            let taken = found.get(journal);
            if taken.is_some() && !kept.has_renewed_recently() {
                restored = Err(cut_off_error());
                continue;
            }
            let number = taken.map_or(0, |(number, _)| *number);
            put(kept, streams, (journal, record), number).await?;
            found.remove(journal);
        }
        restored
    }

    /// Restores the leases of other journals. A lease is restored as incomplete if NATS has lost the journal's stream,
    /// too.
    async fn restore_others(
        &self,
        kept: &Kept,
        streams: &JetStream,
        found: &mut FoundLeases,
    ) -> Result<(), StepError> {
        if !kept.has_renewed_recently() {
            return Err(cut_off_error());
        }
        let missing = kept.with_others(|others| {
            let is_known = |journal: &JournalName| {
                found.contains_key(journal) || self.adopted.contains_key(journal)
            };
            let missing = others.iter().filter(|(journal, _)| !is_known(journal));
            missing.map(|(journal, other)| (journal.clone(), other.clone())).collect::<Vec<_>>()
        });
        for (journal, OtherJournal { lease, start, .. }) in missing {
            let has_stream = has_stream(streams, &kept.names.stream(&journal).name).await?;
            let is_incomplete = lease.is_incomplete || !has_stream;
            // If the stream is lost during an adoption, the journal belongs to its node again. If its sessions are
            // installed, the adopting node restores the lease as adopted.
            let holder = journal.to_string();
            let record = match lease.is_installed || !is_incomplete {
                true => Record { reader: None, ..lease },
                false => {
                    Record { holder, start, is_incomplete, is_restored: true, ..Record::default() }
                }
            };
            let number = put(kept, streams, (&journal, &record), 0).await?;
            found.insert(journal, (number, record));
        }
        Ok(())
    }

    /// Records that this node has adopted a journal.
    pub(in crate::cluster) fn note_adopted(&mut self, kept: &Kept, journal: JournalName) {
        let (Some(own), start) = (kept.own_journal(), kept.start.clone()) else { return };
        let record =
            Record { holder: own.to_string(), start, is_adopted: true, ..Record::default() };
        self.adopted.insert(journal, Adopted { record, is_seen: false, since: None });
    }

    /// The adopted journals whose leases can be removed.
    pub(in crate::cluster) fn removable(
        &mut self,
        own: Option<JournalName>,
        found: &FoundLeases,
        now: Duration,
    ) -> Vec<JournalName> {
        let nodes: BTreeSet<_> = found.keys().chain(&own).map(|journal| &*journal.node).collect();
        for (journal, Adopted { since, .. }) in &mut self.adopted {
            if nodes.contains(&*journal.node) {
                since.get_or_insert(now);
            }
        }
        let is_due =
            |adopted: &Adopted| adopted.since.is_some_and(|since| now >= since + LEASE_RETENTION);
        let due = self.adopted.iter().filter(|(_, adopted)| is_due(adopted));
        due.map(|(journal, _)| journal.clone()).collect()
    }
}

/// The error of a node that was cut off from NATS. It may have missed that journals were adopted or given back, so it
/// leaves the restoration to other nodes.
fn cut_off_error() -> StepError {
    StepError::Retry("this node has no lease".into())
}

/// Replaces the lease's message with this number; 0 if there is none. Fails if another node has replaced it.
async fn put(
    kept: &Kept,
    streams: &JetStream,
    (journal, record): (&JournalName, &Record),
    number: u64,
) -> Result<u64, StepError> {
    let payload = serde_json::to_vec(record).unwrap_or_default();
    let expected = Expected::LastOfSubject(number);
    Ok(streams.append(&kept.names.lease(journal), expected, &payload).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lease_of_an_adopted_journal_is_removed_when_its_node_has_another_one() {
        let journal = |node: &str, id| JournalName { node: node.into(), id };
        let adopted = [journal("a", 1), journal("b", 1), journal("c", 1)];
        let adopted_one = || Adopted { record: Record::default(), is_seen: true, since: None };
        let mut leases = Leases {
            adopted: adopted.into_iter().map(|journal| (journal, adopted_one())).collect(),
            ..Leases::default()
        };
        let found = FoundLeases::from([(journal("b", 2), (7, Record::default()))]);
        let mut due = |hours: u64| {
            let now = Duration::from_secs(hours * 3600);
            leases.removable(Some(journal("a", 2)), &found, now)
        };
        assert_eq!((due(1), due(24)), (vec![], vec![]));
        assert_eq!(due(25), [journal("a", 1), journal("b", 1)]);
    }
}
