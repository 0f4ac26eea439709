//! One index under all cohort sizes in turn.

use std::io;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use phalanx_matcher::{Event, Matches, Snapshot};

use super::workload::{Generator, attributes, code};
use super::{Build, Built, Options, Report, Row, Workload};
use crate::stats::median;
use crate::web::cores;

/// Events that are prepared: more than any cohort, and enough that a part of the index is not always met by
/// the same.
const EVENTS: usize = 16 * 1024;

pub(super) fn run(
    options: &Options,
    workload: Workload,
    access: &'static str,
    built: Built,
    report: &mut Report,
) -> io::Result<()> {
    let Built { mut index, insert_all_per_s, insert_per_s } = built;
    let subscriptions = index.len();
    let bytes_per_subscription = index.bytes() as f64 / subscriptions as f64;
    let snapshot = index.snapshot();
    let mut generator = Generator::new(workload, options.seed.wrapping_add(1));
    let most = options.cohort.iter().copied().max().unwrap_or(0).max(EVENTS);
    let values: Vec<_> = (0..most).map(|_| generator.values()).collect();
    let known = attributes(&snapshot);
    let start = Instant::now();
    let events: Vec<Event> = values.iter().map(|values| code(&snapshot, &known, values)).collect();
    let coding_ns = start.elapsed().as_nanos() as f64 / events.len() as f64;
    let shape = snapshot.shape();
    report.builds.push(Build {
        workload: format!("{workload:?}"),
        subscriptions,
        access,
        insert_all_per_s,
        insert_per_s,
        coding_ns,
        schemas: shape.schemas,
        multiple: shape.multiple,
        pieces: shape.pieces,
        loose: shape.loose,
    });
    let slice = Duration::from_millis(options.slice);
    for cores in options.cores.iter().copied() {
        let mut rates = vec![Vec::new(); options.cohort.len()];
        let mut found = (0, 0);
        for _ in 0..options.rounds {
            for (at, cohort) in options.cohort.iter().enumerate() {
                let sum = on_cores(cores, |core| part(&snapshot, &events, *cohort, core, slice))?;
                rates[at].push(sum.iter().map(Part::rate).sum::<f64>());
                found.0 += sum.iter().map(|part| part.matches).sum::<usize>();
                found.1 += sum.iter().map(|part| part.events).sum::<usize>();
            }
        }
        let plain = options.cohort.iter().position(|cohort| *cohort == 0);
        for (at, cohort) in options.cohort.iter().enumerate() {
            let over = plain.map(|plain| {
                let ratios = rates[at].iter().zip(&rates[plain]).map(|(this, plain)| this / plain);
                median(&ratios.collect::<Vec<_>>())
            });
            report.rows.push(Row {
                workload: format!("{workload:?}"),
                subscriptions,
                access,
                cores,
                cohort: *cohort,
                events_per_s: median(&rates[at]),
                over_per_event: over,
                matches_per_event: found.0 as f64 / found.1.max(1) as f64,
                bytes_per_subscription,
            });
        }
    }
    Ok(())
}

/// What one core did.
struct Part {
    events: usize,
    matches: usize,
    seconds: f64,
}

impl Part {
    fn rate(&self) -> f64 {
        self.events as f64 / self.seconds
    }
}

/// Runs `f` on so many cores at the same time.
fn on_cores(cores: usize, f: impl Fn(usize) -> Part + Sync) -> io::Result<Vec<Part>> {
    if cores == 1 {
        let core = cores::Cores::choose(None, None)?.server;
        return Ok(vec![cores::bound(core, || f(0))?]);
    }
    let ready = Barrier::new(cores);
    let allowed = cores::allowed()?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores)
            .map(|at| {
                let (f, ready) = (&f, &ready);
                let core = allowed[at % allowed.len()];
                scope.spawn(move || {
                    cores::bound(core, || {
                        ready.wait();
                        f(at)
                    })
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    })
}

/// Matches events for about as long as a slice, from a place of its own in the list.
fn part(
    snapshot: &Snapshot,
    events: &[Event],
    cohort: usize,
    core: usize,
    slice: Duration,
) -> Part {
    let mut matches = Matches::new();
    let mut part = Part { events: 0, matches: 0, seconds: 0.0 };
    let step = cohort.max(1);
    let mut at = core * events.len() / 2 % events.len() / step * step;
    let start = Instant::now();
    loop {
        if at + step > events.len() {
            at = 0;
        }
        matches.clear();
        match cohort {
            0 => snapshot.matches(&events[at], &mut matches),
            _ => snapshot.match_cohort(&events[at..at + step], &mut matches),
        }
        part.matches += matches.all().len();
        part.events += step;
        at += step;
        // The clock is not asked for every fast event.
        if part.events % 64 < step || step >= 64 {
            let elapsed = start.elapsed();
            if elapsed >= slice {
                part.seconds = elapsed.as_secs_f64();
                return part;
            }
        }
    }
}
