//! Finds leases that are not renewed, and adopts their journals.
//!
//! A lease has expired if its message has not changed for the timeout, while this node renewed its own: without a
//! majority of the NATS servers nobody can.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use phalanx::shutdown::{draining, is_draining};
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_nats::{Client, JetStream};

use crate::cluster::adopt::adopt;
use crate::cluster_names::{ClusterNames, JournalName};
use crate::context::Context;
use crate::kept::lease::{Failed, Record};
use crate::kept::state::{Kept, OtherJournal, RENEWALS};

/// Looks at the leases until shutdown.
pub(super) async fn watch(context: Context, client: Client) {
    let Some(kept) = context.kept.clone() else { return };
    let inbox = format!("phalanx.{}.inbox.{}.leases", kept.cluster.name, kept.start);
    let streams = Rc::new(JetStream::new(&client, &inbox, kept.timeout() / 2));
    while kept.opened().await && !is_draining() {
        let mut has_adopted = false;
        if let Ok(found) = look(&kept, &streams).await {
            let now = now();
            let is_sure = now.saturating_sub(kept.renewed()) <= 2 * kept.timeout() / RENEWALS;
            let limit = if is_sure { kept.timeout() } else { Duration::MAX };
            let expired = kept.others(|others| update(others, found, (now, limit)));
            kept.has_looked();
            for (journal, number) in expired {
                // One after the other: each may need much memory.
                has_adopted |= adopt(&context, &kept, &streams, &journal, number).await;
            }
        }
        if has_adopted {
            // At once: nodes may have joined meanwhile, and until then the adopted journals remain known.
            continue;
        }
        select(sleep(kept.timeout() / RENEWALS), draining()).await;
    }
}

/// The journals of other nodes that are not adopted: the numbers and contents of their leases.
async fn look(
    kept: &Kept,
    streams: &JetStream,
) -> Result<BTreeMap<JournalName, (u64, Record)>, Failed> {
    let (stream, filter) = (kept.names.leases().name, kept.names.all_leases());
    let (mut found, mut from) = (BTreeMap::new(), 1);
    while let Some(lease) = streams.next(&stream, from, &filter).await? {
        from = lease.number + 1;
        let journal = ClusterNames::journal_of(&lease.subject);
        let record = serde_json::from_slice::<Record>(&lease.payload).ok();
        if let (Some(journal), Some(record)) = (journal, record)
            && !record.is_adopted
            && Some(&journal) != kept.own().as_ref()
        {
            found.insert(journal, (lease.number, record));
        }
    }
    Ok(found)
}

/// Updates the known leases at `now`. Returns those that have not changed for `limit`, with their numbers. Without a limit
/// their times begin again.
fn update(
    others: &mut BTreeMap<JournalName, OtherJournal>,
    found: BTreeMap<JournalName, (u64, Record)>,
    (now, limit): (Duration, Duration),
) -> Vec<(JournalName, u64)> {
    let mut expired = Vec::new();
    let mut updated = BTreeMap::new();
    for (journal, (number, record)) in found {
        let Record { holder, start, is_incomplete, .. } = record;
        let known = others.remove(&journal);
        let start = match holder == journal.to_string() {
            true => start,
            false => known.as_ref().map_or_else(String::new, |known| known.start.clone()),
        };
        let unchanged = known.filter(|known| known.number == number);
        let since = unchanged.filter(|_| limit < Duration::MAX).map_or(now, |known| known.since);
        if now.saturating_sub(since) > limit {
            expired.push((journal.clone(), number));
        }
        updated.insert(journal, OtherJournal { holder, start, is_incomplete, number, since });
    }
    // A node that is lost while it adopts has added messages to the sessions, in its own journal: that one comes first.
    let is_lost = |other: &OtherJournal| now.saturating_sub(other.since) > limit / RENEWALS * 2;
    expired.retain(|(journal, _)| {
        let holder = &updated[journal].holder;
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
            let start = String::new();
            let record = Record { holder, start, is_adopted: false, is_incomplete: false };
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

    /// Node b is lost while it adopts journal a.
    #[test]
    fn the_journal_of_a_lost_adopter_is_adopted_first() {
        let (mut others, limit) = (BTreeMap::new(), Duration::from_secs(5));
        let [a, b] = ["a", "b"].map(|node| JournalName { node: node.into(), id: 7 });
        let mut look = |of_a: u64, of_b: Option<u64>, second| {
            let record = |holder: &JournalName| Record {
                holder: holder.to_string(),
                start: String::new(),
                is_adopted: false,
                is_incomplete: false,
            };
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
