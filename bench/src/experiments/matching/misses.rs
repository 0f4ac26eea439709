//! Measures under cachegrind: misses of a simulated cache, independent of other processes.

use phalanx_kernels::matching::{self, MAX_EVENTS};
use phalanx_kernels::workload::Workload;

use super::{MissRow, Options, build};
use crate::error::Error;
use crate::measure::measure_each;
use crate::system::cachegrind::Counts;
use crate::system::{cachegrind, interrupted};

/// Numbers of events of two runs; their difference excludes one-time costs.
const EVENTS: [usize; 2] = [2048, MAX_EVENTS];
const COHORTS: [usize; 2] = [0, 1024];

/// The rows of each workload and number of filters, and whether a signal has ended the measurement.
pub(super) fn run(options: &Options) -> Result<(Vec<MissRow>, bool), Error> {
    let numbers = &options.subscriptions;
    let with_numbers = |workload| numbers.iter().map(move |number| (workload, *number));
    let settings: Vec<(Workload, usize)> =
        options.workload.iter().copied().flat_map(with_numbers).collect();
    let (rows, partial) = measure_each(&settings, 1, |(workload, subscriptions), _| {
        let mut rows: Vec<MissRow> = Vec::new();
        for cohort in COHORTS {
            eprintln!("{workload:?}, {subscriptions} filters, cohort {cohort}, under valgrind");
            let run = |events| -> Result<Counts, Error> {
                let counts = cachegrind::run(walked(
                    *workload,
                    *subscriptions,
                    cohort,
                    events,
                    options.seed,
                ));
                // The signal that ends this run ends the program, too.
                interrupted()?;
                Ok(counts?)
            };
            let [few, many] = EVENTS;
            let misses = run(many)?.beyond(run(few)?, many - few).l2();
            let alone = rows.first().map(|alone| alone.l2_misses_per_event);
            rows.push(MissRow {
                workload: format!("{workload:?}"),
                subscriptions: *subscriptions,
                cohort,
                l2_misses_per_event: misses,
                per_event_over: alone.map(|alone| alone / misses),
            });
        }
        Ok(rows)
    })?;
    Ok((rows.into_iter().flatten().flatten().collect(), partial.is_some()))
}

/// The arguments of a program that only matches events.
fn walked(
    workload: Workload,
    subscriptions: usize,
    cohort: usize,
    events: usize,
    seed: u64,
) -> [String; 6] {
    [
        "match".to_owned(),
        format!("--workload={workload:?}"),
        format!("--subscriptions={subscriptions}"),
        format!("--cohort={cohort}"),
        format!("--seed={seed}"),
        format!("--walk={events}"),
    ]
}

/// Matches events with one access attribute, in cohorts of the first size.
pub(super) fn walk(options: &Options, events: usize) {
    let workload = options.workload.first().copied().unwrap_or(Workload::W0);
    let subscriptions = options.subscriptions.first().copied().unwrap_or(1);
    let cohort = options.cohort.first().map_or(0, |cohort| cohort.size());
    let index = build(workload, subscriptions, false, options.seed).index;
    matching::walk(&index, workload, options.seed, cohort, events);
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn the_simulated_program_has_the_same_seed() {
        let Line { options } = Line::parse_from(walked(Workload::W3, 2000, 1024, 99, 7));
        assert_eq!(
            (options.seed, options.walk, &*options.subscriptions),
            (7, Some(99), &[2000][..])
        );
        assert_eq!((options.workload, options.cohort[0].size()), (vec![Workload::W3], 1024));
    }
}
