//! `phalanx-bench web`: the web server compared with the floor, its threaded twin, nginx and others.
//!
//! [`Options`] describes the method, `CONTRIBUTING.md` under "Reporting a measurement" the reasons. Read `scene`
//! (the requests), [`runner`](crate::runner) (the servers side by side) and `report`.

mod report;
mod scene;

use std::time::Duration;

use clap::{Args, ValueEnum as _};

use crate::arguments::{number, seconds};
use crate::error::Error;
use crate::measure::{Run, measure_setting};
use crate::runner::{Plan, Runner, RunnerOptions, SETTLE_TIME, Server, Shot, slice};

use report::{Report, Row};
pub(crate) use scene::Scene;

/// Measure the web server, a bare loop, its threaded twin, nginx and other servers.
///
/// All servers run concurrently, each bound to one core; the load on another core visits them in turn, in short
/// slices. The main figure is processor time per request. The minimum of the slices shows the machine in its fast
/// state, and ratios are between minima. A slice in which other processes used a core is repeated. Servers that
/// are not installed are listed and left out. Ctrl-C prints the results so far and lists the missing ones.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Scenes of files and requests to measure
    #[arg(
        long = "scene",
        value_name = "NAME,…",
        value_delimiter = ',',
        value_enum,
        default_value = "small"
    )]
    pub(crate) scenes: Vec<Scene>,

    /// All scenes, one after another
    #[arg(long, conflicts_with = "scenes")]
    pub(crate) all: bool,

    /// Numbers of connections, with one round of slices each [default: depends on the scene]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = number(1..=20_000))]
    pub(crate) connections: Vec<usize>,

    /// Slices per server and number of connections; at least 6
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = number(6..=1000))]
    pub(crate) slices: usize,

    /// Length of a slice, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1.5", value_parser = seconds)]
    pub(crate) slice: Duration,

    /// Only these servers, as in phalanx,nginx or phalanx-uring
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Cores and program
    #[command(flatten)]
    pub(crate) runner: RunnerOptions,

    /// Two short slices with few connections: only checks that it runs
    #[arg(long, conflicts_with_all = ["connections", "slices", "slice"])]
    pub(crate) quick: bool,
}

impl Options {
    /// Number of slices, and their length.
    pub(crate) fn slices(&self) -> (usize, Duration) {
        match self.quick {
            true => (2, slice::QUICK),
            false => (self.slices, self.slice),
        }
    }

    /// The selected scenes.
    pub(crate) fn scenes(&self) -> &[Scene] {
        if self.all { Scene::value_variants() } else { &self.scenes }
    }

    pub(crate) fn connections(&self, scene: Scene) -> Vec<usize> {
        match (self.quick, &*self.connections) {
            (true, _) => scene.connections().iter().copied().filter(|n| *n <= 64).take(2).collect(),
            (false, []) => scene.connections().to_vec(),
            (false, asked) => asked.to_vec(),
        }
    }

    /// Whether to measure the server of this name.
    pub(crate) fn wants(&self, name: &str) -> bool {
        let names = |wanted: &String| {
            name == wanted || name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('-'))
        };
        self.only.is_empty() || self.only.iter().any(names)
    }
}

/// Time of a slice beyond its load: process, connections, readings.
const SLICE_OVERHEAD: Duration = Duration::from_millis(150);

/// Measures the scenes. After an interruption the report lists what is missing.
pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    let mut rows = Vec::new();
    let mut hardware_events = Vec::new();
    let mut place = None;
    for &scene in options.scenes() {
        let wants =
            |name: &str| options.wants(name) && (scene.floor() || !name.starts_with("floor"));
        let plan = Plan {
            wants: &wants,
            arguments: scene.arguments(),
            site: &|directory| scene.site(directory, options.quick),
            check_noise: !options.quick,
            cold: scene.cold(),
            features: scene.features(),
        };
        let measured = Runner::start(&options.runner, &plan).and_then(|runner| {
            place = Some((runner.machine.clone(), runner.versions.clone()));
            let measured = measure(&runner, scene, options, &mut rows);
            hardware_events.extend(runner.events_of(&scene.to_string()));
            measured
        });
        match measured {
            Err(Error::Interrupted) if !rows.is_empty() => break,
            measured => measured?,
        }
    }
    let (machine, peers) = place.ok_or(Error::NoServers)?;
    let report = Report::new(rows, peers, options);
    Ok(Run { hardware_events, ..Run::new(report, machine, None, options.quick) })
}

/// Measures one scene: slices per server and number of connections. After an interruption, `rows` contains the
/// results so far, with the same number of slices per server.
fn measure(
    runner: &Runner,
    scene: Scene,
    options: &Options,
    rows: &mut Vec<Row>,
) -> Result<(), Error> {
    let (slices, length) = options.slices();
    let connections = options.connections(scene);
    let (servers, settings) = (runner.servers.len(), connections.len());
    let estimate = (length + length / 10 + SETTLE_TIME + SLICE_OVERHEAD)
        * (settings * slices * servers) as u32;
    eprintln!(
        "{scene}: {servers} servers, {slices} slices of {} s for each of {connections:?} connections: \
         about {}; longer if other processes use the cores",
        length.as_secs_f64(),
        duration(estimate),
    );
    for connections in connections {
        let title = format!("{scene}, {connections} connections");
        let timeout = length + Duration::from_secs(1);
        let turn = |server: usize, seed| {
            let closed = Shot::closed(connections, seed, timeout);
            let shot = Shot { pipeline: scene.pipeline(), ..closed };
            runner.right_slice(server, length, shot)
        };
        measure_setting(&title, (servers, slices), turn, |seen| {
            let row = |(server, seen): (&Server, &Vec<_>)| {
                Row::new(scene, server.server, server.driver, connections, seen)
            };
            rows.extend(runner.servers.iter().zip(&seen).map(row));
        })?;
    }
    Ok(())
}

/// A duration in seconds or minutes.
fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{:.0} min", seconds as f64 / 60.0),
    }
}
