//! Measures under cachegrind: misses of a simulated cache, independent of other processes.

use std::io;

use phalanx_kernels::matching::{self, MAX_EVENTS};
use phalanx_kernels::workload::Workload;

use super::{MissRow, Options, build};
use crate::system::cachegrind;

/// Numbers of events of two runs; their difference excludes one-time costs.
const EVENTS: [usize; 2] = [2048, MAX_EVENTS];
const COHORTS: [usize; 2] = [0, 1024];

pub(super) fn run(options: &Options) -> io::Result<Vec<MissRow>> {
    let mut rows = Vec::new();
    for workload in &options.workload {
        for subscriptions in options.subscriptions.iter().copied() {
            let mut alone = None;
            for cohort in COHORTS {
                eprintln!("{workload:?}, {subscriptions} filters, cohort {cohort}, under valgrind");
                let [few, many] = EVENTS.map(|events| {
                    cachegrind::run([
                        "match".to_owned(),
                        format!("--workload={workload:?}"),
                        format!("--subscriptions={subscriptions}"),
                        format!("--cohort={cohort}"),
                        format!("--walk={events}"),
                    ])
                });
                let misses = many?.beyond(few?, EVENTS[1] - EVENTS[0]);
                let per_event_over = alone.map(|alone: f64| alone / misses.l2());
                alone = alone.or(Some(misses.l2()));
                rows.push(MissRow {
                    workload: format!("{workload:?}"),
                    subscriptions,
                    cohort,
                    l2_misses_per_event: misses.l2(),
                    per_event_over,
                });
            }
        }
    }
    Ok(rows)
}

/// Matches events with one access attribute, in cohorts of the first size.
pub(super) fn walk(options: &Options, events: usize) {
    let workload = options.workload.first().copied().unwrap_or(Workload::W0);
    let subscriptions = options.subscriptions.first().copied().unwrap_or(1);
    let cohort = options.cohort.first().map_or(0, |cohort| cohort.size());
    let index = build(workload, subscriptions, false, options.seed).index;
    matching::walk(&index, workload, options.seed, cohort, events);
}
