//! Orders the retained messages and deletions of one topic in a cluster, so that all nodes keep the same one.

use std::time::Duration;

use crate::model::subscriptions::group_id::group_id;

/// The time at which a message was retained at the node of its publisher, in microseconds since 1970, and in the low bits
/// a hash of the node's name. The greatest stamp of a topic wins. 0 if the broker is not a node of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

/// The number of bits of the hash. The others suffice until the year 2112.
const NODE_BITS: u32 = 12;

/// A subscription identifier carries this many bits of a stamp.
const PART_BITS: u32 = 22;

/// The number of subscription identifiers that carry a stamp between nodes.
pub(crate) const STAMP_IDENTIFIERS: usize = 3;

impl Stamp {
    /// The stamp of the next message after `self`, retained now at the node with this name. It is greater even if the
    /// clock of the earlier message's node is ahead.
    pub(crate) fn next(self, day: Duration, node: &str) -> Self {
        let at = (day.as_micros() as u64).max((self.0 >> NODE_BITS) + 1);
        let node = group_id(node) & ((1 << NODE_BITS) - 1);
        Self(at << NODE_BITS | u64::from(node))
    }

    /// Whether the message was published in a cluster.
    pub(crate) fn is_set(self) -> bool {
        self.0 != 0
    }

    pub(crate) fn of_number(number: u64) -> Self {
        Self(number)
    }

    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// The subscription identifiers that carry it to another node. They are at least 1, as MQTT requires.
    pub(crate) fn identifiers(self) -> [u32; STAMP_IDENTIFIERS] {
        [2, 1, 0].map(|n| 1 + (self.0 >> (n * PART_BITS)) as u32 % (1 << PART_BITS))
    }

    /// The stamp in the last of these subscription identifiers of another node's message, and the others.
    pub(crate) fn of_identifiers(identifiers: &[u32]) -> (Self, &[u32]) {
        let Some((others, parts)) = identifiers.split_last_chunk::<STAMP_IDENTIFIERS>() else {
            return (Self::default(), identifiers);
        };
        let add = |number: u64, part: &u32| number << PART_BITS | u64::from(part.saturating_sub(1));
        (Self(parts.iter().fold(0, add)), others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_passes_through_identifiers() {
        for number in [1, 1 << 22, 1 << 44, u64::MAX, 0x1234_5678_9abc_def0] {
            let stamp = Stamp(number);
            let ids = stamp.identifiers();
            assert!(ids.iter().all(|id| (1..=1 << PART_BITS).contains(id)), "{ids:?}");
            assert_eq!(Stamp::of_identifiers(&ids), (stamp, &[][..]));
            let with_others = [&[7, 1][..], &ids].concat();
            assert_eq!(Stamp::of_identifiers(&with_others), (stamp, &[7, 1][..]));
        }
        assert_eq!(Stamp::of_identifiers(&[7, 1]), (Stamp::default(), &[7, 1][..]));
    }

    #[test]
    fn later_stamps_are_greater() {
        let at = Duration::from_secs(1_800_000_000);
        let first = Stamp::default().next(at, "a");
        let second = first.next(at - Duration::from_secs(60), "b");
        assert!(second > first, "the clock of the second node is behind");
        assert!(second < Stamp::default().next(at + Duration::from_micros(2), "a"));
        assert_ne!(first.next(at, "a"), first.next(at, "b"));
    }
}
