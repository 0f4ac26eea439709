//! Election: the choice of the next stage to run if the ingress is a budget.

use crate::stage_set::StageSet;

/// The candidates for the next visit, as sets of stages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    /// Stages that have something to run.
    pub(crate) ready: StageSet,
    /// Stages whose cohort is full.
    pub(crate) full: StageSet,
    /// Stages that would exceed the budget.
    pub(crate) over_budget: StageSet,
    /// Stages where requests begin.
    pub(crate) entries: StageSet,
}

impl Choice {
    /// The stage to run next. Of the stages over the budget, those with requests in progress come first, and of these
    /// the farthest downstream, because its requests free memory soonest.
    pub(crate) fn next(self) -> Option<usize> {
        let Self { ready, full, over_budget, entries } = self;
        let candidates = ready.difference(over_budget);
        let full = full.intersection(candidates).last();
        full.or_else(|| candidates.first())
            .or_else(|| ready.difference(entries).last())
            .or_else(|| ready.first())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// For all inputs, no stage is chosen while one of a higher priority is ready, the order within a
        /// priority is as documented, and if anything is ready, something is chosen.
        #[test]
        fn the_order_is_by_three_priorities(ready: u64, full: u64, over_budget: u64, entries: u64) {
            let set = StageSet::from_bits;
            let member = |bits: u64, stage: usize| bits >> stage & 1 != 0;
            let choice = Choice {
                ready: set(ready),
                full: set(full),
                over_budget: set(over_budget),
                entries: set(entries),
            };
            let chosen = choice.next();
            prop_assert_eq!(chosen.is_some(), ready != 0);
            let Some(chosen) = chosen else { return Ok(()) };
            prop_assert!(member(ready, chosen));
            let priority = |stage: usize| match (member(over_budget, stage), member(full, stage)) {
                (false, true) => 0,
                (false, false) => 1,
                (true, _) => 2 + usize::from(member(entries, stage)),
            };
            for other in (0..64).filter(|other| member(ready, *other)) {
                prop_assert!(priority(chosen) <= priority(other));
                if priority(chosen) == priority(other) {
                    let is_last_first = matches!(priority(chosen), 0 | 2);
                    let comes_after = if is_last_first { chosen >= other } else { chosen <= other };
                    prop_assert!(comes_after, "{} before {}", chosen, other);
                }
            }
        }
    }
}
