//! `phalanx-bench web`: the web server compared with the floor, its threaded twin, nginx and others.
//!
//! [`Options`] describes the method, `CONTRIBUTING.md` under "Reporting a measurement" the reasons. Read `scene`
//! (the requests), [`runner`](crate::runner) (the servers side by side) and `report`.

mod options;
mod report;
mod scene;

use std::time::Duration;

pub(crate) use options::Options;
use report::{Report, Row};
pub(crate) use scene::Scene;

use crate::error::Error;
use crate::measure::{Run, measure_setting};
use crate::runner::{Plan, Runner, SETTLE_TIME, Server, Shot};

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
