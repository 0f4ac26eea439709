//! Matching against an index of a publish/subscribe server with few filters: indexing more would take longer than
//! matching.

use std::hint::black_box;

use phalanx_matcher::{Event, Index, Matches, Options};

use crate::workload::{Generator, Workload, attributes, code};

/// Number of events that are coded whether they are matched or not, so that the difference of two runs is matching
/// alone.
pub const MAX_EVENTS: usize = 6144;

const SUBSCRIPTIONS: usize = 20_000;
const SEED: u64 = 42;

/// Fills an index, in one batch and one by one, and matches `count` events.
pub(crate) fn run(cohort: usize, count: usize) {
    let mut index =
        Index::new(Options { multiple: false, expected: SUBSCRIPTIONS, ..Options::default() });
    let mut generator = Generator::new(Workload::W0, SEED);
    let filters: Vec<_> = (0..SUBSCRIPTIONS).map(|_| generator.filter()).collect();
    let (batch, singly) = filters.split_at(SUBSCRIPTIONS / 10 * 9);
    index.insert_all(batch);
    singly.iter().for_each(|filter| {
        index.insert(filter);
    });
    walk(&index, Workload::W0, SEED, cohort, count);
}

/// Matches up to `count` events in cohorts of one size; 0 is one at a time without a queue.
pub fn walk(index: &Index, workload: Workload, seed: u64, cohort: usize, count: usize) {
    let mut generator = Generator::new(workload, seed.wrapping_add(1));
    let known = attributes(index);
    let coded: Vec<Event> =
        (0..MAX_EVENTS).map(|_| code(index, &known, &generator.values())).collect();
    let mut matches = Matches::new();
    for events in coded[..count.min(MAX_EVENTS)].chunks(cohort.max(1)) {
        matches.clear();
        match cohort {
            0 => index.matches(&events[0], &mut matches),
            _ => index.match_cohort(events, &mut matches),
        }
        black_box(matches.all());
    }
}
