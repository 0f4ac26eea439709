//! Measures one index with all cohort sizes in turn.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use phalanx_kernels::workload::{Generator, Workload, attributes, code};
use phalanx_matcher::Event;

use super::form::{Cohort, Form, Part, Worker, forms};
use super::{Access, Build, Built, Options, Report, Row};
use crate::error::Error;
use crate::measure::stats::spread;
use crate::measure::{Rounds as _, Stretch, median};
use crate::system::{cores, interrupted};

/// Number of prepared events: more than any cohort, and enough to vary the events that match a part of the index.
const EVENTS: usize = 16 * 1024;

pub(super) fn run(
    options: &Options,
    workload: Workload,
    access: Access,
    mut built: Built,
    report: &mut Report,
) -> Result<(), Error> {
    let subscriptions = built.index.len();
    let bytes_per_subscription = built.index.bytes() as f64 / subscriptions as f64;
    let snapshot = built.index.snapshot();
    let mut generator = Generator::new(workload, options.seed.wrapping_add(1));
    let most = options.cohort.iter().map(|cohort| cohort.size()).max().unwrap_or(0);
    let values: Vec<_> = (0..most.max(EVENTS)).map(|_| generator.values()).collect();
    let known = attributes(&snapshot);
    let start = Instant::now();
    let events: Vec<Event> = values.iter().map(|values| code(&snapshot, &known, values)).collect();
    let coding_ns = start.elapsed().as_nanos() as f64 / events.len() as f64;
    report.builds.push(Build::new(workload, access, &built, &snapshot, coding_ns));
    let slice = Duration::from_millis(options.slice);
    let mut all: Vec<Arm> = Vec::new();
    for cores in options.cores.iter().copied() {
        let arms = forms(options, cores).into_iter();
        all.extend(arms.map(|form| Arm { form, cores, rates: Vec::new() }));
    }
    let mut found = (0, 0);
    for round in 0..options.rounds {
        match interrupted() {
            // Complete rounds are reported; the caller notices the signal.
            Err(_) if round > 0 => break,
            first => first?,
        }
        eprintln!("round {} of {}", round + 1, options.rounds);
        for Arm { form, cores, rates } in &mut all {
            let (next, cores) = (AtomicUsize::new(0), *cores);
            let stretch = Stretch::begin();
            let sum = on_cores(cores, form.threads(), |core| {
                form.run(&snapshot, &events, Worker { core, cores, next: &next }, slice)
            })?;
            let events = sum.iter().map(|part| part.events).sum::<usize>();
            stretch.end().of(format_args!("{workload:?}, {form:?}, {cores} cores"), events);
            rates.push(form.rate(&sum));
            if !matches!(form, Form::Partition(_)) {
                found.0 += sum.iter().map(|part| part.matches).sum::<usize>();
                found.1 += events;
            }
        }
    }
    for arm in &all {
        let over = |other: Option<&Arm>| {
            other.map(|other| median(&arm.rates.over(&other.rates, |rate| *rate)))
        };
        let of = |form: Form, cores: usize| {
            all.iter().find(|other| other.form == form && other.cores == cores)
        };
        let here = match arm.form {
            Form::Partition(_) => Form::Loop(arm.form.cohort()),
            other => other,
        };
        report.rows.push(Row {
            workload: format!("{workload:?}"),
            subscriptions,
            access,
            form: arm.form.name(),
            cores: arm.cores,
            cohort: arm.form.cohort(),
            rounds: arm.rates.len(),
            events_per_s: median(&arm.rates),
            spread: spread([("events_per_s", arm.rates.clone())]),
            over_per_event: over(of(Form::Loop(Cohort::Fixed(0)), arm.cores)),
            over_one_core: over(of(here, 1).filter(|_| arm.cores > 1)),
            matches_per_event: found.0 as f64 / found.1.max(1) as f64,
            bytes_per_subscription,
        });
    }
    interrupted()
}

/// A form on a number of cores, and its results per round. All take turns.
struct Arm {
    form: Form,
    cores: usize,
    rates: Vec<f64>,
}

/// Runs `f` concurrently on a number of cores, with the given number of threads each.
fn on_cores(
    cores: usize,
    threads: usize,
    f: impl Fn(usize) -> Part + Sync,
) -> io::Result<Vec<Part>> {
    if cores == 1 && threads == 1 {
        let core = cores::first()?;
        return Ok(vec![cores::bound(&core, || f(0))?]);
    }
    let ready = Barrier::new(cores * threads);
    let allowed = cores::allowed()?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores * threads)
            .map(|at| {
                let (f, ready) = (&f, &ready);
                let core = allowed[at % cores % allowed.len()];
                scope.spawn(move || {
                    cores::bound(&[core], || {
                        ready.wait();
                        f(at)
                    })
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    })
}
