//! `phalanx-bench report`: runs and draws all experiments in one command.
//!
//! Read [`Options`], then `catalogue` (the experiments), `child` (running one), `document` (`report.json`), `markdown`
//! (the page, also as `html` and as a `section` of another page) and `plots`.

mod baseline;
mod catalogue;
mod child;
mod document;
mod html;
mod markdown;
mod number;
mod options;
mod plot;
mod plots;
mod section;
mod series;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use indicatif::{ProgressBar, ProgressStyle};

use crate::measure::{NoiseProbe, is_noisy, machine};
use crate::runner::{BROKERS, WEB, versions};
use crate::system::{hardware, install_signal_handlers, is_interrupted};

use catalogue::{Command, Experiment};
use child::Outcome;
pub(crate) use document::{Document, Entry};
use markdown::Parts;
pub(crate) use options::Options;

/// Steps of the noise probe around each experiment: tens of milliseconds.
const PROBE_STEPS: u64 = 20_000_000;

/// Time limit of a command: a multiple of its expected duration, and time for a loaded machine.
const MAX_TIME_FACTOR: u32 = 3;
const EXTRA_TIME: Duration = Duration::from_secs(60);

/// Errors of [`run`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// Unknown experiment.
    #[error("unknown experiment {name:?}; known are {all}")]
    Unknown {
        /// The given name.
        name: String,
        /// The known names.
        all: String,
    },
    /// An earlier report cannot be read.
    #[error("{}: {source}", path.display())]
    Baseline {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The report cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A system call failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Result of a run.
#[derive(Debug)]
pub(crate) struct Made {
    /// Path of the page.
    pub(crate) page: PathBuf,
    /// Experiments without results, and the reasons.
    pub(crate) missing: Vec<(String, String)>,
    /// Whether the run was interrupted.
    pub(crate) interrupted: bool,
}

/// Measures and writes the report. Progress goes to stderr. SIGINT and SIGTERM end it from here on; the results
/// so far are written.
pub(crate) fn run(options: &Options) -> Result<Made, Error> {
    let chosen = choose(&options.only)?;
    let earlier = |path: &Option<PathBuf>| {
        let read = |path: &PathBuf| {
            Document::read(path).map_err(|source| Error::Baseline { path: path.clone(), source })
        };
        path.as_ref().map(read).transpose()
    };
    let baseline = earlier(&options.baseline)?;
    let drawn = earlier(&options.draw)?;
    // Fail now rather than after an hour.
    fs::create_dir_all(&options.out)
        .map_err(|source| Error::Write { path: options.out.clone(), source })?;
    match drawn {
        Some(document) => show(options, &document, baseline.as_ref(), false),
        None => measure_all(options, &chosen, baseline.as_ref()),
    }
}

fn measure_all(
    options: &Options,
    chosen: &[&Experiment],
    baseline: Option<&Document>,
) -> Result<Made, Error> {
    let program = crate::system::process::own()?;
    let mut document = document(options);
    install_signal_handlers()?;

    let total: u64 = chosen.iter().map(|experiment| experiment.command(options.full).seconds).sum();
    let bar = bar(total);
    let (mut probe, mut done, mut interrupted) = (NoiseProbe::new(PROBE_STEPS), 0, false);
    for experiment in chosen {
        let command = experiment.command(options.full);
        let line = format!("phalanx-bench {} --json", command.command);
        let entry = if interrupted {
            Entry::missing(experiment, line, "the run was interrupted before")
        } else {
            tell_of_peers(experiment, &document, &bar);
            let look = |elapsed: Duration, said: &str| {
                bar.set_position(done + elapsed.as_secs().min(command.seconds));
                bar.set_message(format!("{}: {said}", experiment.name));
            };
            let measured =
                measure(&program, experiment, command, &line, &mut probe, options.full, look)?;
            interrupted = is_interrupted();
            measured
        };
        done += command.seconds;
        bar.set_position(done);
        document.experiments.push(entry);
        // After each experiment, so that results survive a crash.
        let json = serde_json::to_string_pretty(&document).map_err(io::Error::from)?;
        write(&options.out.join("report.json"), &(json + "\n"))?;
    }
    bar.finish_and_clear();
    show(options, &document, baseline, interrupted)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Writes the pages and the plots.
fn show(
    options: &Options,
    document: &Document,
    baseline: Option<&Document>,
    interrupted: bool,
) -> Result<Made, Error> {
    let moves = baseline.map(|baseline| baseline::moves(baseline, document));
    let text = |level, plots, figures| {
        markdown::page(document, moves.as_deref(), Parts { level, plots, figures })
    };
    let plots = plots::all(document);
    let folder = options.out.join("plots");
    fs::create_dir_all(&folder).map_err(|source| Error::Write { path: folder.clone(), source })?;
    plots.iter().try_for_each(|(name, svg)| write(&folder.join(name), svg))?;
    let page = options.out.join("report.html");
    let whole = format!("# Phalanx, measured\n\n{}", text(2, true, true));
    write(&page, &html::page(&whole, &plots))?;
    write(&options.out.join("report.md"), &format!("# Report\n\n{}", text(2, true, false)))?;
    if let Some(path) = &options.page {
        let replaced = fs::read_to_string(path)
            .and_then(|page| section::replaced(&page, &text(3, false, false)));
        let failed = |source| Error::Write { path: path.clone(), source };
        write(path, &replaced.map_err(failed)?)?;
    }
    let missing = document
        .experiments
        .iter()
        .filter_map(|entry| Some((entry.name.clone(), entry.missing.clone()?)));
    Ok(Made { page, missing: missing.collect(), interrupted })
}

/// The experiments of these names, or all.
fn choose(only: &[String]) -> Result<Vec<&'static Experiment>, Error> {
    let all = catalogue::all();
    if let Some(name) = only.iter().find(|name| catalogue::find(name).is_none()) {
        let all: Vec<_> = all.iter().map(|experiment| &*experiment.name).collect();
        return Err(Error::Unknown { name: name.clone(), all: all.join(", ") });
    }
    let wanted = |experiment: &&Experiment| only.is_empty() || only.contains(&experiment.name);
    Ok(all.iter().filter(wanted).collect())
}

/// A document without experiments.
fn document(options: &Options) -> Document {
    let peers = versions(&WEB).into_iter().chain(versions(&BROKERS));
    let peers = peers.map(|(name, version)| (name.to_owned(), version)).collect();
    let made_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Document {
        version: document::VERSION,
        phalanx: env!("CARGO_PKG_VERSION").to_owned(),
        made_at: made_at.as_secs(),
        quick: !options.full,
        processor: machine::processor(),
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        kernel: machine::kernel(),
        hardware_counters: hardware::are_available(),
        peers,
        experiments: Vec::new(),
    }
}

fn bar(total: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{bar:30} {elapsed_precise} (about {eta} left) {wide_msg}");
    let bar = ProgressBar::new(total);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Reports missing peers and how to install them.
fn tell_of_peers(experiment: &Experiment, document: &Document, bar: &ProgressBar) {
    let name = &experiment.name;
    for peer in &experiment.peers {
        if matches!(document.peers.get(peer), None | Some(None)) {
            let install = install(peer);
            bar.suspend(|| eprintln!("{name}: {peer} is not installed and is skipped; {install}"));
        }
    }
}

/// How to install a peer.
fn install(name: &str) -> &'static str {
    let mut peers = WEB.iter().chain(&BROKERS);
    peers.find(|peer| peer.name() == name).map_or("", |peer| peer.install)
}

/// Runs an experiment; in a full report repeats it once if the machine was disturbed.
fn measure(
    program: &Path,
    experiment: &Experiment,
    command: &Command,
    line: &str,
    probe: &mut NoiseProbe,
    again: bool,
    mut look: impl FnMut(Duration, &str),
) -> io::Result<Entry> {
    let arguments: Vec<&str> = command.command.split_whitespace().collect();
    let limit = MAX_TIME_FACTOR * Duration::from_secs(command.seconds) + EXTRA_TIME;
    let mut best: Option<Entry> = None;
    for _ in 0..=usize::from(again) {
        let before = probe.slowdown();
        let outcome = child::run(program, &arguments, limit, &mut look)?;
        let slowdown = [before, probe.slowdown()];
        let entry = match outcome {
            Outcome::Measured(report, took) => Entry {
                name: experiment.name.clone(),
                command: line.to_owned(),
                seconds: took.as_secs_f64(),
                slowdown,
                noisy: slowdown.into_iter().any(is_noisy),
                report: Some(report),
                missing: None,
            },
            Outcome::Failed(reason) => Entry::missing(experiment, line.to_owned(), &reason),
            Outcome::Interrupted => {
                let entry = Entry::missing(experiment, line.to_owned(), "the run was interrupted");
                return Ok(best.unwrap_or(entry));
            }
        };
        let calmer = |old: &Entry| {
            old.report.is_none() || entry.report.is_some() && entry.worst() < old.worst()
        };
        if best.as_ref().is_none_or(calmer) {
            best = Some(entry);
        }
        if best.as_ref().is_some_and(|entry| entry.report.is_some() && !entry.noisy) {
            break;
        }
    }
    best.ok_or_else(|| io::Error::other("nothing was run"))
}
