//! The subscriptions that share one access predicate: one group per common shape, and the rest as loose
//! records.
//!
//! A loose record is a sequence of words. Subscriptions are loose if their shape is rare, because a block
//! would be mostly empty, or if a condition has a code wider than a byte. Loose records are checked one by
//! one.

use super::group::{self, Group};
use crate::index::code::event::Event;
use crate::index::code::residual::Residual;
use crate::simd::prefetch::prefetch;

/// Minimum number of subscriptions of one shape in a group.
const MIN_GROUP: usize = 16;
/// Maximum number of loose words that are searched for common shapes.
const MAX_COUNTED_WORDS: usize = 4096;
/// Number of lines to prefetch; the CPU's prefetcher loads the following ones.
const FIRST: usize = 16;
/// Group number of loose records.
pub(crate) const LOOSE: usize = 255;

#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) key: u128,
    pub(crate) groups: Vec<Group>,
    /// Records: the subscription's number, the record's length in words, its conditions.
    pub(crate) loose: Vec<u32>,
}

/// Location of a subscription in a cluster.
pub(crate) struct RowPosition {
    pub(crate) group: usize,
    pub(crate) row: usize,
}

/// The shape of conditions: the numbers of equalities and of intervals; `None` if one condition is wide.
fn shape(residuals: &[Residual]) -> Option<(usize, usize)> {
    let mut shape = (0, 0);
    for residual in residuals {
        match residual {
            Residual::Equal { .. } => shape.0 += 1,
            Residual::Range { .. } => shape.1 += 1,
            Residual::Wide { .. } => return None,
        }
    }
    Some(shape)
}

/// The conditions in a record's words.
pub(crate) fn residuals(mut words: &[u32]) -> impl Iterator<Item = Residual> + '_ {
    std::iter::from_fn(move || {
        if words.is_empty() {
            return None;
        }
        let (residual, taken) = Residual::read(words);
        words = &words[taken..];
        Some(residual)
    })
}

impl Cluster {
    pub(crate) fn new(key: u128) -> Cluster {
        Cluster { key, groups: Vec::new(), loose: Vec::new() }
    }

    pub(crate) fn bytes(&self) -> usize {
        let groups: usize = self.groups.iter().map(Group::bytes).sum();
        size_of::<Cluster>() + groups + 4 * self.loose.len()
    }

    /// The loose records: the subscription's number and the words of its conditions.
    pub(crate) fn records(&self) -> impl Iterator<Item = (u32, &[u32])> {
        let mut rest = self.loose.as_slice();
        std::iter::from_fn(move || {
            let &[id, words, ..] = rest else { return None };
            let (record, tail) = rest.split_at(2 + words as usize);
            rest = tail;
            Some((id, &record[2..]))
        })
    }

    /// Adds a subscription. Calls `moved` for each subscription that moves from the loose records to a group.
    pub(crate) fn insert(
        &mut self,
        id: u32,
        residuals: &[Residual],
        mut moved: impl FnMut(u32, RowPosition),
    ) -> RowPosition {
        let shape = shape(residuals);
        if let Some(shape) = shape {
            let found = self.groups.iter().position(|g| (g.equals, g.ranges) == shape);
            let group = found.or_else(|| self.form(shape, &mut moved));
            if let Some(at) = group {
                self.groups[at].push(id, residuals);
                return RowPosition { group: at, row: self.groups[at].ids.len() - 1 };
            }
        }
        let words: usize = residuals.iter().map(|residual| residual.words()).sum();
        self.loose.reserve_exact(2 + words + self.loose.len() / 8);
        self.loose.extend([id, words as u32]);
        for residual in residuals {
            residual.write(&mut self.loose);
        }
        RowPosition { group: LOOSE, row: 0 }
    }

    /// Forms a group of the loose records with this shape, if there are enough.
    fn form(
        &mut self,
        wanted: (usize, usize),
        moved: &mut impl FnMut(u32, RowPosition),
    ) -> Option<usize> {
        let at = self.groups.len();
        if self.loose.len() > MAX_COUNTED_WORDS || at == LOOSE {
            return None;
        }
        let has = |words: &[u32]| {
            words.len() == wanted.0 + wanted.1
                && shape(&residuals(words).collect::<Vec<_>>()) == Some(wanted)
        };
        if self.records().filter(|(_, words)| has(words)).count() + 1 < MIN_GROUP {
            return None;
        }
        let mut group = Group::new(wanted.0, wanted.1);
        let mut loose = Vec::new();
        for (id, words) in self.records() {
            if has(words) {
                group.push(id, &residuals(words).collect::<Vec<_>>());
                moved(id, RowPosition { group: at, row: group.ids.len() - 1 });
            } else {
                loose.extend([id, words.len() as u32]);
                loose.extend(words);
            }
        }
        self.loose = loose;
        self.groups.push(group);
        Some(at)
    }

    /// Removes one loose record of a subscription; returns false if there is none.
    pub(crate) fn remove_loose(&mut self, id: u32) -> bool {
        let mut at = 0;
        while at < self.loose.len() {
            let end = at + 2 + self.loose[at + 1] as usize;
            if self.loose[at] == id {
                self.loose.drain(at..end);
                return true;
            }
            at = end;
        }
        false
    }

    /// Rewrites each loose condition.
    pub(crate) fn rewrite_loose(&mut self, change: impl Fn(Residual) -> Residual) {
        let mut loose = Vec::with_capacity(self.loose.len());
        for (id, words) in self.records() {
            loose.extend([id, words.len() as u32]);
            residuals(words).for_each(|residual| change(residual).write(&mut loose));
        }
        self.loose = loose;
    }

    /// Replaces the narrow labels of a slot.
    pub(crate) fn relabel(&mut self, slot: u8, moved: &[u8; 256]) {
        self.groups.iter_mut().for_each(|group| group.relabel(slot, moved));
        self.rewrite_loose(|residual| match residual {
            Residual::Range { slot: other, low, width } if other == slot => {
                let (low, width) = group::relabel(low, width, moved);
                Residual::Range { slot, low, width }
            }
            other => other,
        });
    }

    /// Prefetches the lines that are checked first.
    #[inline]
    pub(crate) fn prefetch(&self) {
        if let Some(group) = self.groups.first() {
            group.lines.iter().take(FIRST).for_each(prefetch);
        }
    }

    /// Calls `found` for each loose subscription that the event satisfies.
    #[inline]
    pub(crate) fn check_loose(&self, event: &Event, mut found: impl FnMut(u32)) {
        if self.loose.is_empty() {
            return;
        }
        for (id, words) in self.records() {
            if residuals(words).all(|residual| residual.holds(event)) {
                found(id);
            }
        }
    }
}
