//! The leases as last seen, and their restoration.
//!
//! If NATS loses all leases, living nodes write theirs again. This node writes those of lost nodes: otherwise clients would
//! begin new sessions, although the lost nodes' disks have their sessions. A loss shows in the creation of the stream, which
//! NATS may also change without one: then no lease is missing.
//!
//! The lease of an adopted journal tells the lost node that it was adopted. It is removed a day after that node has begun
//! another journal.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use phalanx_nats::{Expected, JetStream};

use crate::cluster::adopt::has_stream;
use crate::cluster_names::{ClusterNames, JournalName};
use crate::kept::lease::{Failed, Record};
use crate::kept::state::Kept;

/// Time for which the lease of an adopted journal is kept while its node has another journal.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// The leases as last seen.
#[derive(Default)]
pub(super) struct Leases {
    /// The number of the first lease that may change, if there is any: those of adopted journals do not.
    pub(super) from: Option<u64>,
    /// The creation of the stream, and whether NATS has lost the leases since they were restored.
    created: String,
    are_lost: bool,
    /// The adopted journals, and since when their nodes are known to have others.
    adopted: BTreeMap<JournalName, Option<Duration>>,
}

/// The leases of other nodes' journals that are not adopted: their numbers and contents.
pub(super) type Found = BTreeMap<JournalName, (u64, Record)>;

impl Leases {
    /// The creation of the stream of the leases as last seen.
    pub(super) fn created(&self) -> &str {
        &self.created
    }

    /// The lease of an adopted journal was removed.
    pub(super) fn forget(&mut self, journal: &JournalName) {
        self.adopted.remove(journal);
    }

    /// Reads the leases that may have changed.
    pub(super) async fn look(&mut self, kept: &Kept, streams: &JetStream) -> Result<Found, Failed> {
        let (stream, filter) = (kept.names.leases().name, kept.names.all_leases());
        loop {
            let before = self.from;
            let (mut found, mut next, mut first) = (Found::new(), before.unwrap_or(1), None);
            while let Some(lease) = streams.next(&stream, next, &filter).await? {
                next = lease.number + 1;
                let journal = ClusterNames::journal_of(&lease.subject);
                let record = serde_json::from_slice::<Record>(&lease.payload).ok();
                let (Some(journal), Some(record)) = (journal, record) else { continue };
                if record.is_adopted {
                    self.adopted.entry(journal).or_default();
                    continue;
                }
                // NATS had lost its lease, and its node has returned.
                self.adopted.remove(&journal);
                first.get_or_insert(lease.number);
                if Some(&journal) != kept.own().as_ref() {
                    found.insert(journal, (lease.number, record));
                }
            }
            // After the leases were read, so that these are of the stream that was created then, or of an earlier one.
            let created = streams.state(&stream).await?.created;
            if self.created != created {
                self.are_lost |= !self.created.is_empty();
                self.created = created;
                self.from = None;
                continue;
            }
            self.from = first;
            if first.is_some() || before.is_none() {
                self.restore(kept, streams, &mut found).await?;
                return Ok(found);
            }
            // Not even this node's own: NATS has lost its data, and the numbers begin again.
        }
    }

    /// Restores leases that NATS has lost, as incomplete where it has lost the journal's stream, too.
    async fn restore(
        &mut self,
        kept: &Kept,
        streams: &JetStream,
        found: &mut Found,
    ) -> Result<(), Failed> {
        if !self.are_lost {
            return Ok(());
        }
        let missing = kept.others(|others| {
            let is_missing = |journal: &JournalName| {
                !found.contains_key(journal) && !self.adopted.contains_key(journal)
            };
            let missing = others.iter().filter(|(journal, other)| {
                is_missing(journal) && other.lease.holder == journal.to_string()
            });
            missing
                .map(|(journal, other)| (journal.clone(), other.lease.clone()))
                .collect::<Vec<_>>()
        });
        for (journal, lease) in missing {
            let has_stream = has_stream(streams, &kept.names.stream(&journal).name).await?;
            let is_incomplete = lease.is_incomplete || !has_stream;
            let record = Record { is_incomplete, reader: None, ..lease };
            let payload = serde_json::to_vec(&record).unwrap_or_default();
            // It fails if the node, or another one, has written it meanwhile.
            let (subject, none) = (kept.names.lease(&journal), Expected::LastOfSubject(0));
            let number = streams.append(&subject, none, &payload).await?;
            found.insert(journal, (number, record));
        }
        self.are_lost = false;
        Ok(())
    }

    /// The adopted journals whose leases have to be removed.
    pub(super) fn outdated(
        &mut self,
        own: Option<JournalName>,
        found: &Found,
        now: Duration,
    ) -> Vec<JournalName> {
        let nodes: BTreeSet<_> = found.keys().chain(&own).map(|journal| &*journal.node).collect();
        for (journal, since) in &mut self.adopted {
            if nodes.contains(&*journal.node) {
                since.get_or_insert(now);
            }
        }
        let is_due = |since: &Option<Duration>| since.is_some_and(|since| now >= since + KEPT);
        let due = self.adopted.iter().filter(|(_, since)| is_due(since));
        due.map(|(journal, _)| journal.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lease_of_an_adopted_journal_is_removed_when_its_node_has_another_one() {
        let journal = |node: &str, id| JournalName { node: node.into(), id };
        let adopted = [journal("a", 1), journal("b", 1), journal("c", 1)];
        let mut leases = Leases {
            adopted: adopted.into_iter().map(|journal| (journal, None)).collect(),
            ..Leases::default()
        };
        let found = Found::from([(journal("b", 2), (7, Record::default()))]);
        let mut due = |hours: u64| {
            let now = Duration::from_secs(hours * 3600);
            leases.outdated(Some(journal("a", 2)), &found, now)
        };
        assert_eq!((due(1), due(24)), (vec![], vec![]));
        assert_eq!(due(25), [journal("a", 1), journal("b", 1)]);
    }
}
