//! Finds leases that are not renewed, and adopts their journals.
//!
//! A lease has expired if its message has not changed for the timeout, while this node renewed its own: without a
//! majority of the NATS servers nobody can.
//!
//! If NATS loses all leases, living nodes write theirs again. This node writes those of lost nodes: otherwise clients would
//! begin new sessions, although the lost nodes' disks have their sessions. A loss shows in the creation of the stream, which
//! NATS may also change without one: then no lease is missing.
//!
//! The lease of an adopted journal tells the lost node that it was adopted. It is removed a day after that node has begun
//! another journal.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use phalanx::shutdown::{draining, is_draining};
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_nats::{Client, Expected, JetStream};

use crate::cluster::adopt::{adopt, has_stream};
use crate::cluster_names::{ClusterNames, JournalName};
use crate::context::Context;
use crate::kept::lease::{Failed, Record};
use crate::kept::state::{Kept, OtherJournal, RENEWALS};

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

/// Looks at the leases until shutdown.
pub(super) async fn watch(context: Context, client: Client) {
    let Some(kept) = context.kept.clone() else { return };
    let inbox = format!("phalanx.{}.inbox.{}.leases", kept.cluster.name, kept.start);
    let streams = Rc::new(JetStream::new(&client, &inbox, kept.timeout() / 2));
    let mut leases = Leases::default();
    while kept.opened().await && !is_draining() {
        let mut has_adopted = false;
        if let Ok(found) = leases.look(&kept, &streams).await {
            let now = now();
            for journal in leases.outdated(kept.own(), &found, now) {
                let (stream, subject) = (kept.names.leases().name, kept.names.lease(&journal));
                if streams.purge_subject(&stream, &subject).await.is_ok() {
                    leases.adopted.remove(&journal);
                }
            }
            let is_sure = now.saturating_sub(kept.renewed()) <= 2 * kept.timeout() / RENEWALS;
            let limit = if is_sure { kept.timeout() } else { Duration::MAX };
            let expired = kept.others(|others| update(others, found, (now, limit)));
            kept.has_looked();
            for (journal, number) in expired {
                // One after the other: each may need much memory.
                has_adopted |=
                    adopt(&context, &kept, &streams, &journal, (number, &leases.created)).await;
            }
        }
        if has_adopted {
            // At once: nodes may have joined meanwhile, and until then the adopted journals remain known.
            continue;
        }
        select(sleep(kept.timeout() / RENEWALS), draining()).await;
    }
}

/// The leases of other nodes' journals that are not adopted: their numbers and contents.
type Found = BTreeMap<JournalName, (u64, Record)>;

impl Leases {
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
    fn outdated(
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

/// Updates the known leases at `now`. Returns those that have not changed for `limit`, with their numbers. Without a limit
/// their times begin again.
fn update(
    others: &mut BTreeMap<JournalName, OtherJournal>,
    found: Found,
    (now, limit): (Duration, Duration),
) -> Vec<(JournalName, u64)> {
    let mut expired = Vec::new();
    let mut updated = BTreeMap::new();
    for (journal, (number, lease)) in found {
        let known = others.remove(&journal);
        let start = match lease.holder == journal.to_string() {
            true => lease.start.clone(),
            false => known.as_ref().map_or_else(String::new, |known| known.start.clone()),
        };
        // Until the node starts again.
        let is_unreadable =
            known.as_ref().is_some_and(|known| known.is_unreadable && known.start == start);
        let unchanged = known.filter(|known| known.number == number);
        let since = unchanged.filter(|_| limit < Duration::MAX).map_or(now, |known| known.since);
        if now.saturating_sub(since) > limit {
            expired.push((journal.clone(), number));
        }
        updated.insert(journal, OtherJournal { lease, start, is_unreadable, number, since });
    }
    // A node that is lost while it adopts has added messages to the sessions, in its own journal: that one comes first.
    let is_lost = |other: &OtherJournal| now.saturating_sub(other.since) > limit / RENEWALS * 2;
    expired.retain(|(journal, _)| {
        let holder = &updated[journal].lease.holder;
        let mut others = updated.iter().filter(|(own, _)| *own != journal);
        !others.any(|(own, other)| own.to_string() == *holder && is_lost(other))
    });
    *others = updated;
    expired
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_expires_if_it_is_not_renewed_while_others_are() {
        let (mut others, limit) = (BTreeMap::new(), Duration::from_secs(5));
        let journal = JournalName { node: "a".into(), id: 7 };
        let mut look = |number, second, limit| {
            let holder = journal.to_string();
            let record = Record { holder, ..Record::default() };
            let found = BTreeMap::from([(journal.clone(), (number, record))]);
            update(&mut others, found, (Duration::from_secs(second), limit))
        };
        assert_eq!(look(1, 0, limit), []);
        assert_eq!(look(1, 5, limit), []);
        assert_eq!(look(2, 6, limit), [], "it was renewed");
        assert_eq!(look(2, 11, limit), []);
        assert_eq!(look(2, 12, Duration::MAX), [], "nobody can renew");
        assert_eq!(look(2, 17, limit), []);
        assert_eq!(look(2, 18, limit), [(journal.clone(), 2)]);
    }

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

    /// Node b is lost while it adopts journal a.
    #[test]
    fn the_journal_of_a_lost_adopter_is_adopted_first() {
        let (mut others, limit) = (BTreeMap::new(), Duration::from_secs(5));
        let [a, b] = ["a", "b"].map(|node| JournalName { node: node.into(), id: 7 });
        let mut look = |of_a: u64, of_b: Option<u64>, second| {
            let record =
                |holder: &JournalName| Record { holder: holder.to_string(), ..Record::default() };
            let mut found = BTreeMap::from([(a.clone(), (of_a, record(&b)))]);
            found.extend(of_b.map(|of_b| (b.clone(), (of_b, record(&b)))));
            update(&mut others, found, (Duration::from_secs(second), limit))
        };
        assert_eq!(look(1, Some(1), 0), []);
        assert_eq!(look(1, Some(5), 5), []);
        assert_eq!(look(1, Some(6), 6), [(a.clone(), 1)], "b lives and has given a up");
        assert_eq!(look(2, Some(7), 7), []);
        // The last renewal of its own lease is seen a moment later than that of the other.
        assert_eq!(look(2, Some(8), 8), []);
        assert_eq!(look(2, Some(8), 13), []);
        assert_eq!(look(2, Some(8), 14), [(b.clone(), 8)]);
        assert_eq!(look(2, None, 15), [(a.clone(), 2)], "b is adopted");
    }
}
