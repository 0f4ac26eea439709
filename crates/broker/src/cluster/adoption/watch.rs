//! Finds expired leases, and adopts their journals.
//!
//! A lease has expired if its message has not changed for the timeout, while this node renewed its own lease without a
//! gap. After a gap, NATS may have been unavailable to all nodes, and each needs some time to renew its lease.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use phalanx::shutdown::{draining, is_draining};
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_nats::{Client, JetStream};

use crate::cluster::adoption::adopt::adopt;
use crate::cluster::adoption::leases::{FoundLeases, Leases};
use crate::cluster_names::JournalName;
use crate::context::Context;
use crate::kept::state::{OtherJournal, RENEWALS_PER_TIMEOUT};

/// Watches the leases until shutdown.
pub(in crate::cluster) async fn watch(context: Context, client: Client) {
    let Some(kept) = context.kept.clone() else { return };
    let inbox = format!("phalanx.{}.inbox.{}.leases", kept.cluster.name, kept.start);
    let streams = Rc::new(JetStream::new(&client, &inbox, kept.timeout() / 2));
    let mut leases = Leases::default();
    while kept.wait_until_open().await && !is_draining() {
        let mut has_adopted = false;
        if let Ok(found) = leases.read(&kept, &streams).await {
            let now = now();
            for journal in leases.removable(kept.own_journal(), &found, now) {
                let (stream, subject) = (kept.names.leases().name, kept.names.lease(&journal));
                if streams.purge_subject(&stream, &subject).await.is_ok() {
                    leases.forget(&journal);
                }
            }
            // Before the other journals, so that one which was adopted is always in one of the two lists.
            kept.set_adopted(leases.adopted());
            let (limit, renewing_since) = (kept.timeout(), kept.renewing_since());
            let expired =
                kept.with_others(|others| update(others, found, (now, limit), renewing_since));
            kept.set_others_known();
            for (journal, number) in expired {
                // One at a time, because each adoption may need much memory.
                let lease_version = (number, leases.created());
                if adopt(&context, &kept, &streams, &journal, lease_version).await {
                    leases.note_adopted(&kept, journal);
                    has_adopted = true;
                }
            }
        }
        if has_adopted {
            // Without a pause: nodes may have joined meanwhile, and the adopted journals are listed until the leases are
            // read again.
            continue;
        }
        select(sleep(kept.timeout() / RENEWALS_PER_TIMEOUT), draining()).await;
    }
}

/// Updates the known leases at `now`. Returns those that have not changed for `limit`, with their numbers. Only time
/// since `renewing_since` counts, because before that nodes may have been unable to renew their leases.
fn update(
    others: &mut BTreeMap<JournalName, OtherJournal>,
    found: FoundLeases,
    (now, limit): (Duration, Duration),
    renewing_since: Duration,
) -> Vec<(JournalName, u64)> {
    let mut expired = Vec::new();
    let mut updated = BTreeMap::new();
    for (journal, (number, lease)) in found {
        let known = others.remove(&journal);
        let start = match lease.holder == journal.to_string() {
            true => lease.start.clone(),
            false => known.as_ref().map_or_else(String::new, |known| known.start.clone()),
        };
        // A journal stays unreadable until its node starts again.
        let is_unreadable =
            known.as_ref().is_some_and(|known| known.is_unreadable && known.start == start);
        let unchanged = known.filter(|known| known.number == number);
        let since = unchanged.map_or(now, |known| known.since.max(renewing_since));
        if now.saturating_sub(since) > limit {
            expired.push((journal.clone(), number));
        }
        updated.insert(journal, OtherJournal { lease, start, is_unreadable, number, since });
    }
    // A node that adopts a journal has some of the sessions in its own journal, and continues when it reaches NATS again.
    // If it is lost, its own journal is adopted first, because the seal of that journal ends the adoption.
    expired.retain(|(journal, _)| {
        let holder = &updated[journal].lease.holder;
        !updated.keys().any(|other| other != journal && other.to_string() == *holder)
    });
    *others = updated;
    expired
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::lease::Record;

    #[test]
    fn a_lease_expires_if_it_is_not_renewed_while_others_are() {
        let (mut others, limit) = (BTreeMap::new(), Duration::from_secs(5));
        let journal = JournalName { node: "a".into(), id: 7 };
        let mut look = |number, second, renewing_since| {
            let holder = journal.to_string();
            let record = Record { holder, ..Record::default() };
            let found = BTreeMap::from([(journal.clone(), (number, record))]);
            let [now, renewing_since] = [second, renewing_since].map(Duration::from_secs);
            update(&mut others, found, (now, limit), renewing_since)
        };
        assert_eq!(look(1, 0, 0), []);
        assert_eq!(look(1, 5, 0), []);
        assert_eq!(look(2, 6, 0), [], "it was renewed");
        assert_eq!(look(2, 11, 0), []);
        assert_eq!(look(2, 12, 12), [], "nobody can renew");
        assert_eq!(look(2, 17, 12), []);
        assert_eq!(look(2, 29, 28), [], "nobody could renew before");
        assert_eq!(look(2, 33, 28), []);
        assert_eq!(look(2, 34, 28), [(journal.clone(), 2)]);
    }

    /// Node b is adopting journal a.
    #[test]
    fn only_the_loss_of_its_adopter_passes_a_journal_on() {
        let (mut others, limit) = (BTreeMap::new(), Duration::from_secs(5));
        let [a, b] = ["a", "b"].map(|node| JournalName { node: node.into(), id: 7 });
        let mut look = |of_a: u64, of_b: Option<u64>, second| {
            let record =
                |holder: &JournalName| Record { holder: holder.to_string(), ..Record::default() };
            let mut found = BTreeMap::from([(a.clone(), (of_a, record(&b)))]);
            found.extend(of_b.map(|of_b| (b.clone(), (of_b, record(&b)))));
            update(&mut others, found, (Duration::from_secs(second), limit), Duration::ZERO)
        };
        assert_eq!(look(1, Some(1), 0), []);
        assert_eq!(look(1, Some(5), 5), []);
        assert_eq!(look(1, Some(6), 6), [], "b lives and may have sessions of a");
        assert_eq!(look(2, Some(7), 7), []);
        assert_eq!(look(2, Some(7), 12), []);
        assert_eq!(look(2, Some(7), 13), [(b.clone(), 7)]);
        assert_eq!(look(2, None, 14), [(a.clone(), 2)], "b is adopted");
    }
}
