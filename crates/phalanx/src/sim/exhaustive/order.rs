//! The order of dependent steps, as a hash.
//!
//! Two schedules that differ only in the order of independent steps lead to the same state. A step reads and writes
//! some *parts* of the world: processors, mailboxes, the network, the state of the program. The hash of a part covers
//! the steps that accessed it, and the hashes of the other parts that these steps accessed. Equal hashes of all parts
//! therefore mean equal schedules, up to independent steps (Mazurkiewicz traces).

/// The factor of the hash.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A set of parts of the world that a step accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts(u64);

impl Parts {
    pub(super) const ALL: Self = Self(u64::MAX);
    /// The state of the program, which all operations may share.
    pub(super) const PROGRAM: Self = Self(1);
    /// The network, the disk and their random numbers.
    pub(super) const OUTSIDE: Self = Self(2);

    /// The maximum number of processors that can have separate parts.
    pub(super) const MAX_PROCESSORS: usize = 31;

    /// A processor without its mailbox.
    pub(super) fn processor(number: usize) -> Self {
        Self(4 << (2 * number))
    }

    pub(super) fn mailbox(number: usize) -> Self {
        Self(8 << (2 * number))
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn contains(self, part: usize) -> bool {
        self.0 & 1 << part != 0
    }
}

/// The hashes of all parts.
#[derive(Debug)]
pub(super) struct Order(Vec<u64>);

impl Order {
    pub(super) fn new(processors: usize) -> Self {
        Self((1..=2 + 2 * processors as u64).collect())
    }

    /// Records a step, described by `words`, that accessed `parts`.
    pub(super) fn record(&mut self, words: impl IntoIterator<Item = u64>, parts: Parts) {
        let touched: Vec<_> = (0..self.0.len()).filter(|part| parts.contains(*part)).collect();
        let before = touched.iter().map(|part| self.0[*part]);
        let step = hash(words.into_iter().chain(before));
        touched.into_iter().for_each(|part| self.0[part] = hash([step, part as u64]));
    }

    /// The hash of all parts.
    pub(super) fn hash(&self) -> u64 {
        hash(self.0.iter().copied())
    }
}

fn hash(words: impl IntoIterator<Item = u64>) -> u64 {
    let hash = words.into_iter().fold(FACTOR, |hash, word| {
        (hash.rotate_left(29) ^ word).wrapping_mul(FACTOR) ^ (hash >> 32)
    });
    (hash ^ hash >> 29).wrapping_mul(FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(steps: &[(u64, Parts)]) -> u64 {
        let mut order = Order::new(2);
        steps.iter().for_each(|(word, parts)| order.record([*word], *parts));
        order.hash()
    }

    #[test]
    fn only_dependent_steps_have_an_order() {
        let [first, second] = [0, 1].map(Parts::processor);
        assert_eq!(of(&[(1, first), (2, second)]), of(&[(2, second), (1, first)]));
        assert_ne!(of(&[(1, first), (2, first)]), of(&[(2, first), (1, first)]));
        let both = first.with(second);
        assert_ne!(of(&[(1, first), (2, both)]), of(&[(2, both), (1, first)]));
        assert_ne!(of(&[(1, first)]), of(&[(1, second)]));
        // The order of two independent steps matters to a third that depends on one of them only by a fourth.
        let mailbox = Parts::mailbox(1);
        let sends = first.with(mailbox);
        assert_ne!(
            of(&[(1, sends), (2, mailbox), (3, first)]),
            of(&[(2, mailbox), (1, sends), (3, first)])
        );
        assert_eq!(
            of(&[(1, sends), (2, mailbox), (3, first)]),
            of(&[(1, sends), (3, first), (2, mailbox)])
        );
    }
}
