//! Statistics: the constants that filters require, as an estimate of the values that events carry.

/// For each slot, the number of conditions that name each constant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    slots: Vec<Uses>,
}

#[derive(Clone, Debug, Default)]
struct Uses {
    by_id: Vec<u32>,
    all: u64,
}

impl Statistics {
    /// Counts a row with these equalities.
    pub(crate) fn count(&mut self, equals: &[(u32, u32)]) {
        equals.iter().for_each(|(slot, id)| self.count_one(*slot, *id));
    }

    fn count_one(&mut self, slot: u32, id: u32) {
        let (slot, id) = (slot as usize, id as usize);
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, Uses::default);
        }
        let uses = &mut self.slots[slot];
        if uses.by_id.len() <= id {
            uses.by_id.resize(id + 1, 0);
        }
        uses.by_id[id] += 1;
        uses.all += 1;
    }

    /// Reverses [`count`](Statistics::count) for a row that was removed.
    pub(crate) fn uncount(&mut self, equals: &[(u32, u32)]) {
        for (slot, id) in equals {
            if let Some(uses) = self.slots.get_mut(*slot as usize)
                && let Some(count) = uses.by_id.get_mut(*id as usize)
                && *count > 0
            {
                *count -= 1;
                uses.all -= 1;
            }
        }
    }

    /// Estimated likelihood that an event satisfies this equality, assuming that events carry what filters
    /// require. Half if the slot is unknown.
    pub(crate) fn likelihood(&self, slot: u32, id: u32) -> f64 {
        let Some(uses) = self.slots.get(slot as usize) else { return 0.5 };
        let this = uses.by_id.get(id as usize).copied().unwrap_or(0);
        (f64::from(this) + 1.0) / (uses.all as f64 + 2.0)
    }

    /// Upper estimate of that likelihood: three standard deviations above. With ten uses of a constant its
    /// likelihood is hardly known, and among many attributes one always looks rare by chance.
    pub(crate) fn likelihood_at_most(&self, slot: u32, id: u32) -> f64 {
        let Some(uses) = self.slots.get(slot as usize) else { return 1.0 };
        let this = f64::from(uses.by_id.get(id as usize).copied().unwrap_or(0)) + 1.0;
        (this + 3.0 * this.sqrt()) / (uses.all as f64 + 2.0)
    }

    /// Allocated bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.iter().map(|uses| 4 * uses.by_id.capacity()).sum()
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
