//! Accepted and received messages, and the differences that the guarantees forbid.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use phalanx_mqtt::QoS;

/// Faults that are described; further ones are only counted.
const DESCRIBED: usize = 40;

/// The messages of one publisher and one QoS, which are numbered from 1 on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Series {
    pub(super) publisher: String,
    pub(super) qos: u8,
}

/// A receiver: a client, or a group of which one member gets each message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Receiver {
    pub(super) name: String,
    pub(super) is_group: bool,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) lost: usize,
    pub(super) duplicated: usize,
    pub(super) reordered: usize,
    pub(super) stuck: usize,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, duplicated, reordered, stuck } = self;
        write!(f, "lost={lost} twice={duplicated} reordered={reordered} stuck={stuck}")
    }
}

/// Which part of the verdict a fault counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lost,
    Duplicated,
    Reordered,
    Stuck,
}

/// The records of a run.
#[derive(Default)]
pub(super) struct Ledger(Mutex<Records>);

#[derive(Default)]
struct Records {
    /// The accepted messages of each series, by number.
    accepted: BTreeMap<Series, Vec<bool>>,
    received: BTreeMap<Receiver, BTreeMap<Series, Deliveries>>,
    verdict: Verdict,
    faults: Vec<String>,
}

/// Messages of a series at one receiver.
#[derive(Default)]
struct Deliveries {
    /// How often each came, by number.
    counts: Vec<u32>,
    /// The largest number.
    last: usize,
    /// Earlier ones need not arrive.
    from: usize,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A broker has accepted a message.
    pub(super) fn accepted(&self, series: &Series, number: u64) {
        let mut records = self.lock();
        let all = records.accepted.entry(series.clone()).or_default();
        *slot(all, number) = true;
    }

    /// All messages of the load are for this receiver.
    pub(super) fn receives(&self, receiver: &Receiver) {
        self.lock().received.entry(receiver.clone()).or_default();
    }

    /// From now on, all messages of the load are for this receiver, except for the next `window` of each series, which may
    /// have been sent before.
    pub(super) fn receives_from_now(&self, receiver: &Receiver, window: usize) {
        let mut records = self.lock();
        let Records { accepted, received, .. } = &mut *records;
        let by_series = received.entry(receiver.clone()).or_default();
        for (series, accepted) in accepted {
            by_series.entry(series.clone()).or_default().from = accepted.len() + window;
        }
    }

    /// A receiver got a message.
    pub(super) fn received(&self, receiver: &Receiver, series: &Series, number: u64) {
        let mut records = self.lock();
        let by_series = records.received.entry(receiver.clone()).or_default();
        let deliveries = by_series.entry(series.clone()).or_default();
        let count = slot(&mut deliveries.counts, number);
        *count += 1;
        let (is_first, is_twice) = (*count == 1, *count == 2);
        let last = deliveries.last;
        deliveries.last = last.max(number as usize);
        let message = || format!("{} got {number} of {series} after {last}", receiver.name);
        // Repetitions are allowed with QoS 1, and the order of messages applies to their first deliveries.
        if is_twice && series.qos == QoS::ExactlyOnce as u8 {
            records.fault(Kind::Duplicated, &message());
        }
        if is_first && last > number as usize && !receiver.is_group {
            records.fault(Kind::Reordered, &message());
        }
    }

    /// Adds a fault.
    pub(super) fn fault(&self, kind: Kind, message: &str) {
        self.lock().fault(kind, message);
    }

    /// The number of accepted messages.
    pub(super) fn count(&self) -> usize {
        self.lock().accepted.values().flatten().filter(|is| **is).count()
    }

    /// The number of accepted messages that have not arrived everywhere.
    pub(super) fn missing(&self) -> usize {
        self.lock().missing().count()
    }

    /// The verdict, and descriptions of faults.
    pub(super) fn finish(&self) -> (Verdict, Vec<String>) {
        let mut records = self.lock();
        let missing: Vec<_> = records
            .missing()
            .map(|(receiver, series, number)| {
                format!("{} did not get {number} of {series}", receiver.name)
            })
            .collect();
        missing.iter().for_each(|message| records.fault(Kind::Lost, message));
        (records.verdict, std::mem::take(&mut records.faults))
    }
}

impl Records {
    fn fault(&mut self, kind: Kind, message: &str) {
        let Verdict { lost, duplicated, reordered, stuck } = &mut self.verdict;
        let (count, name) = match kind {
            Kind::Lost => (lost, "lost"),
            Kind::Duplicated => (duplicated, "twice"),
            Kind::Reordered => (reordered, "reordered"),
            Kind::Stuck => (stuck, "stuck"),
        };
        *count += 1;
        if self.faults.len() < DESCRIBED {
            self.faults.push(format!("{name}: {message}"));
        }
    }

    fn missing(&self) -> impl Iterator<Item = (&Receiver, &Series, usize)> {
        self.received.iter().flat_map(move |(receiver, by_series)| {
            self.accepted.iter().flat_map(move |(series, accepted)| {
                let deliveries = by_series.get(series);
                let from = deliveries.map_or(0, |deliveries| deliveries.from);
                let count_of = move |n: usize| {
                    deliveries.and_then(|deliveries| deliveries.counts.get(n)).copied()
                };
                let missing = accepted
                    .iter()
                    .enumerate()
                    .filter(move |(n, is)| **is && *n >= from)
                    .filter(move |(n, _)| count_of(*n).is_none_or(|count| count == 0));
                missing.map(move |(n, _)| (receiver, series, n))
            })
        })
    }
}

/// The entry of a number.
fn slot<T: Clone + Default>(all: &mut Vec<T>, number: u64) -> &mut T {
    let n = number as usize;
    if all.len() <= n {
        all.resize(n + 1, T::default());
    }
    &mut all[n]
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with QoS {}", self.publisher, self.qos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_counted_by_kind() {
        let ledger = Ledger::default();
        let series = |qos| Series { publisher: "a".into(), qos };
        let receiver = |name: &str, is_group| Receiver { name: name.to_owned(), is_group };
        let (client, group) = (receiver("client", false), receiver("group", true));
        ledger.receives(&client);
        ledger.receives(&group);
        for qos in [1, 2] {
            (1..=4).for_each(|n| ledger.accepted(&series(qos), n));
            // 5 was not accepted, and may arrive or not.
            for n in [1, 3, 2, 2, 5] {
                ledger.received(&client, &series(qos), n);
                ledger.received(&group, &series(qos), n);
            }
        }
        assert_eq!((ledger.count(), ledger.missing()), (8, 4));
        let (verdict, faults) = ledger.finish();
        assert_eq!(verdict.to_string(), "lost=4 twice=2 reordered=2 stuck=0");
        assert!(faults.contains(&"lost: group did not get 4 of a with QoS 1".to_owned()));
        assert!(faults.contains(&"twice: client got 2 of a with QoS 2 after 3".to_owned()));
    }

    #[test]
    fn a_later_receiver_need_not_get_earlier_messages() {
        let (ledger, series) = (Ledger::default(), Series { publisher: "a".into(), qos: 1 });
        let late_receiver = Receiver { name: "late".into(), is_group: false };
        (1..=4).for_each(|n| ledger.accepted(&series, n));
        ledger.receives_from_now(&late_receiver, 1);
        (5..=6).for_each(|n| ledger.accepted(&series, n));
        assert_eq!(ledger.missing(), 1, "5 may have been sent before");
        ledger.received(&late_receiver, &series, 6);
        assert_eq!(ledger.missing(), 0);
    }
}
