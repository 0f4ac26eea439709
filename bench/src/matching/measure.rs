//! One index under all cohort sizes in turn.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use phalanx_matcher::Event;

use super::form::{Cohort, Form, Part, Place, forms};
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
    let most = options.cohort.iter().map(|cohort| cohort.size()).max().unwrap_or(0);
    let values: Vec<_> = (0..most.max(EVENTS)).map(|_| generator.values()).collect();
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
        let forms = forms(options, cores);
        let mut rates = vec![Vec::new(); forms.len()];
        let mut found = (0, 0);
        for _ in 0..options.rounds {
            for (form, rates) in forms.iter().zip(&mut rates) {
                let next = AtomicUsize::new(0);
                let sum = on_cores(cores, form.threads(), |core| {
                    form.run(&snapshot, &events, Place { core, cores, next: &next }, slice)
                })?;
                rates.push(form.rate(&sum));
                if !matches!(form, Form::Partition(_)) {
                    found.0 += sum.iter().map(|part| part.matches).sum::<usize>();
                    found.1 += sum.iter().map(|part| part.events).sum::<usize>();
                }
            }
        }
        let plain = forms.iter().position(|form| *form == Form::Loop(Cohort::Fixed(0)));
        for (form, of_form) in forms.iter().zip(&rates) {
            let over = plain.map(|plain| {
                let ratios = of_form.iter().zip(&rates[plain]).map(|(this, plain)| this / plain);
                median(&ratios.collect::<Vec<_>>())
            });
            report.rows.push(Row {
                workload: format!("{workload:?}"),
                subscriptions,
                access,
                form: form.name(),
                cores,
                cohort: form.cohort(),
                events_per_s: median(of_form),
                over_per_event: over,
                matches_per_event: found.0 as f64 / found.1.max(1) as f64,
                bytes_per_subscription,
            });
        }
    }
    Ok(())
}

/// Runs `f` on so many cores at the same time, on each with so many threads.
fn on_cores(
    cores: usize,
    threads: usize,
    f: impl Fn(usize) -> Part + Sync,
) -> io::Result<Vec<Part>> {
    if cores == 1 && threads == 1 {
        let core = cores::Cores::choose(None, None)?.server;
        return Ok(vec![cores::bound(core, || f(0))?]);
    }
    let ready = Barrier::new(cores * threads);
    let allowed = cores::allowed()?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores * threads)
            .map(|at| {
                let (f, ready) = (&f, &ready);
                let core = allowed[at % cores % allowed.len()];
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
