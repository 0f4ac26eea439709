//! Statistics: how many conditions name each slot and each constant. The constants of equalities serve as an
//! estimate of the values that events carry; slots and constants without uses are freed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use crate::index::code::coded::Coded;
use crate::index::code::dictionary::Dictionary;
use crate::index::code::hashing::BuildMixHasher;
use crate::index::code::named::Code;

/// The uses of each slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    slots: Vec<Uses>,
}

/// The uses of a slot. A table has an entry for each constant that is used.
#[derive(Clone, Debug, Default)]
struct Uses {
    /// Equalities by the number of the constant, and their sum.
    by_id: Vec<u32>,
    all: u64,
    /// The number of other conditions.
    rest: u64,
    /// Inequalities by the number of the constant.
    differ: HashMap<u32, u32, BuildMixHasher>,
    /// Ends of intervals by label; empty or with an entry for each label.
    narrow: Vec<u32>,
    wide: HashMap<u64, u32, BuildMixHasher>,
}

impl Uses {
    fn count(&mut self, code: Code) {
        match code {
            Code::Id(id) => *self.differ.entry(id).or_default() += 1,
            Code::Wide(label) => *self.wide.entry(label).or_default() += 1,
            Code::Narrow(label) => {
                self.narrow.resize(256, 0);
                self.narrow[usize::from(label)] += 1;
            }
        }
    }

    fn uncount(&mut self, code: Code) {
        match code {
            Code::Id(id) => one_less(&mut self.differ, id),
            Code::Wide(label) => one_less(&mut self.wide, label),
            Code::Narrow(label) => self.narrow[usize::from(label)] -= 1,
        }
    }

    fn has(&self, code: Code) -> bool {
        match code {
            Code::Id(id) => {
                self.by_id.get(id as usize).is_some_and(|count| *count > 0)
                    || self.differ.contains_key(&id)
            }
            Code::Narrow(label) => {
                self.narrow.get(usize::from(label)).is_some_and(|count| *count > 0)
            }
            Code::Wide(label) => self.wide.contains_key(&label),
        }
    }

    fn is_unused(&self) -> bool {
        self.all + self.rest == 0
    }
}

fn one_less<K: Eq + Hash>(counts: &mut HashMap<K, u32, BuildMixHasher>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

impl Statistics {
    /// Counts a row.
    pub(crate) fn count(&mut self, coded: &Coded, dictionary: &Dictionary) {
        self.count_equals(&coded.equals);
        for residual in &coded.rest {
            let uses = self.slot(residual.slot());
            uses.rest += 1;
            let codes = residual.codes(&dictionary.slots[residual.slot() as usize]);
            codes.into_iter().flatten().for_each(|code| uses.count(code));
        }
    }

    /// Counts the equalities of a row.
    pub(crate) fn count_equals(&mut self, equals: &[(u32, u32)]) {
        for (slot, id) in equals {
            let (uses, id) = (self.slot(*slot), *id as usize);
            if uses.by_id.len() <= id {
                uses.by_id.resize(id + 1, 0);
            }
            uses.by_id[id] += 1;
            uses.all += 1;
        }
    }

    fn slot(&mut self, slot: u32) -> &mut Uses {
        let slot = slot as usize;
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, Uses::default);
        }
        &mut self.slots[slot]
    }

    /// Reverses [`count`](Statistics::count) for a row that was removed. Calls `unused` for each slot and constant
    /// that has no other use, and with `None` for each slot without uses.
    pub(crate) fn uncount(
        &mut self,
        coded: &Coded,
        dictionary: &Dictionary,
        mut unused: impl FnMut(u32, Option<Code>),
    ) {
        self.uncount_equals(&coded.equals);
        for (slot, id) in &coded.equals {
            let uses = &self.slots[*slot as usize];
            if !uses.has(Code::Id(*id)) {
                unused(*slot, Some(Code::Id(*id)));
            }
            if uses.is_unused() {
                unused(*slot, None);
            }
        }
        for residual in &coded.rest {
            let slot = residual.slot();
            let uses = &mut self.slots[slot as usize];
            uses.rest -= 1;
            for code in residual.codes(&dictionary.slots[slot as usize]).into_iter().flatten() {
                uses.uncount(code);
                if !uses.has(code) {
                    unused(slot, Some(code));
                }
            }
            if uses.is_unused() {
                unused(slot, None);
            }
        }
    }

    /// Reverses [`count_equals`](Statistics::count_equals).
    pub(crate) fn uncount_equals(&mut self, equals: &[(u32, u32)]) {
        for (slot, id) in equals {
            let uses = &mut self.slots[*slot as usize];
            uses.by_id[*id as usize] -= 1;
            uses.all -= 1;
        }
    }

    /// Whether no condition reads the slot.
    pub(crate) fn is_unused(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_none_or(Uses::is_unused)
    }

    /// Whether a condition names the constant.
    pub(crate) fn has(&self, slot: u32, code: Code) -> bool {
        self.slots.get(slot as usize).is_some_and(|uses| uses.has(code))
    }

    /// Forgets a slot without uses.
    pub(crate) fn forget(&mut self, slot: u32) {
        if let Some(uses) = self.slots.get_mut(slot as usize) {
            *uses = Uses::default();
        }
    }

    /// Moves the counts of a slot's narrow labels to the new labels.
    pub(crate) fn relabel(&mut self, slot: u32, moved: &[u8; 256]) {
        let uses = self.slot(slot);
        let old = std::mem::take(&mut uses.narrow);
        for (label, count) in old.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            uses.narrow.resize(256, 0);
            uses.narrow[usize::from(moved[label])] += count;
        }
    }

    /// Moves the counts of a slot's wide labels to the new labels, given in rising order of the old ones.
    pub(crate) fn relabel_wide(&mut self, slot: u32, moved: &[(u64, u64)]) {
        let uses = self.slot(slot);
        let of = |(old, new): &(u64, u64)| Some((*new, *uses.wide.get(old)?));
        uses.wide = moved.iter().filter_map(of).collect();
    }

    /// Estimated likelihood that an event satisfies this equality, assuming that the values in events are distributed
    /// like those in filters. One half if the slot is unknown.
    pub(crate) fn likelihood(&self, slot: u32, id: u32) -> f64 {
        let Some(uses) = self.slots.get(slot as usize) else { return 0.5 };
        let this = uses.by_id.get(id as usize).copied().unwrap_or(0);
        (f64::from(this) + 1.0) / (uses.all as f64 + 2.0)
    }

    /// Upper estimate of that likelihood: three standard deviations above. Ten uses of a constant say little about its
    /// likelihood, and among many constants one always looks rare by chance.
    pub(crate) fn likelihood_at_most(&self, slot: u32, id: u32) -> f64 {
        let Some(uses) = self.slots.get(slot as usize) else { return 1.0 };
        let this = f64::from(uses.by_id.get(id as usize).copied().unwrap_or(0)) + 1.0;
        (this + 3.0 * this.sqrt()) / (uses.all as f64 + 2.0)
    }

    /// Allocated bytes.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |uses: &Uses| {
            let tables = 8 * uses.differ.capacity() + 16 * uses.wide.capacity();
            4 * (uses.by_id.capacity() + uses.narrow.capacity()) + tables
        };
        self.slots.iter().map(bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Filter, Index, Options};

    #[test]
    fn constants_are_counted_while_they_have_rows() {
        let mut index = Index::new(Options::default());
        let filters: Vec<Filter> = (0..3000)
            .map(|n| format!("a = {} AND (b = {} OR c > {})", n % 300, n % 7, n % 9))
            .map(|text| Filter::parse(&text).expect("in the language"))
            .collect();
        let all = index.insert_all(&filters);
        let counted = |index: &Index| index.statistics.slots.iter().map(|uses| uses.all).sum();
        let sum: u64 = counted(&index);
        assert_eq!(sum, 3 * 3000, "two of a and one of b each");
        index.replace(all[7], &filters[8]);
        assert_eq!(counted(&index), sum);
        index.adapt();
        all.iter().for_each(|subscription| assert!(index.remove(*subscription)));
        assert_eq!(counted(&index), 0);
    }
}
