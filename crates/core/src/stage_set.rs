//! A set of stages of one graph, as a bit mask.

/// The maximum number of stages in a graph. A 64-bit word has one bit for each stage, and four for a processor's other
/// inboxes.
pub const MAX_STAGES: usize = 60;

/// A set of stages, by their numbers in wavefront order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StageSet(u64);

impl StageSet {
    pub(crate) const EMPTY: Self = Self(0);

    /// The stages whose bits are set. Bits from [`MAX_STAGES`] on do not stand for stages.
    #[inline(always)]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The positions of the `items` that `is_member` accepts.
    pub(crate) fn select<T>(
        items: impl IntoIterator<Item = T>,
        mut is_member: impl FnMut(T) -> bool,
    ) -> Self {
        let bits = items.into_iter().enumerate();
        Self(bits.fold(0, |bits, (stage, item)| bits | u64::from(is_member(item)) << stage))
    }

    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub(crate) fn contains(self, stage: usize) -> bool {
        self.0 & 1 << (stage & 63) != 0
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, stage: usize) {
        self.0 |= 1 << stage;
    }

    #[inline(always)]
    pub(crate) fn with(self, stage: usize) -> Self {
        Self(self.0 | 1 << stage)
    }

    #[inline(always)]
    pub(crate) fn without(self, stage: usize) -> Self {
        Self(self.0 & !(1 << stage))
    }

    #[inline(always)]
    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[inline(always)]
    pub(crate) fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[inline(always)]
    pub(crate) fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The members at or after `stage`.
    #[inline(always)]
    pub(crate) fn at_or_after(self, stage: usize) -> Self {
        Self(self.0 & u64::MAX << stage)
    }

    /// The members before `stage`.
    #[inline(always)]
    pub(crate) fn before(self, stage: usize) -> Self {
        Self(self.0 & ((1 << stage) - 1))
    }

    /// The first member in wavefront order.
    #[inline(always)]
    pub(crate) fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }

    /// The last member in wavefront order.
    #[inline(always)]
    pub(crate) fn last(self) -> Option<usize> {
        (self.0 != 0).then(|| 63 - self.0.leading_zeros() as usize)
    }
}

impl Iterator for StageSet {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let stage = self.first()?;
        self.0 &= self.0 - 1;
        Some(stage)
    }
}

impl FromIterator<usize> for StageSet {
    fn from_iter<I: IntoIterator<Item = usize>>(stages: I) -> Self {
        stages.into_iter().fold(Self::EMPTY, Self::with)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn model(bits: u64) -> BTreeSet<usize> {
        (0..64).filter(|stage| bits & 1 << stage != 0).collect()
    }

    proptest! {
        #[test]
        fn agrees_with_a_tree(a: u64, b: u64, stage in 0usize..63) {
            let (set, other) = (StageSet::from_bits(a), StageSet::from_bits(b));
            let members = model(a);
            prop_assert_eq!(set.collect::<BTreeSet<_>>(), members.clone());
            prop_assert_eq!(set.collect::<StageSet>(), set);
            prop_assert_eq!(set.first(), members.first().copied());
            prop_assert_eq!(set.last(), members.last().copied());
            prop_assert_eq!(set.contains(stage), members.contains(&stage));
            prop_assert_eq!(set.at_or_after(stage).collect::<BTreeSet<_>>(), members.range(stage..).copied().collect());
            prop_assert_eq!(set.before(stage).collect::<BTreeSet<_>>(), members.range(..stage).copied().collect());
            prop_assert_eq!(set.with(stage).without(stage), set.without(stage));
            prop_assert!(set.with(stage).contains(stage) && !set.without(stage).contains(stage));
            prop_assert_eq!(set.difference(other).union(set.intersection(other)), set);
            prop_assert_eq!(StageSet::select(0..64, |n| set.contains(n)), set);
        }
    }
}
