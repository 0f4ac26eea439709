//! The web server with one popular file, and with many files of equal popularity.

use std::path::Path;
use std::time::Duration;

use super::report::{Arm, Slice, rows};
use super::{Options, Row};
use crate::error::Error;
use crate::measure::measure_setting;
use crate::runner::{Features, Plan, Runner, Shot, Site, ours};
use crate::system::Cores;

/// Size of the popular file in bytes.
const POPULAR: usize = 2500;
/// Tuned peers for small files.
const PEERS: [&str; 3] = ["nginx-nosf", "lighttpd", "h2o"];

pub(super) fn run(options: &Options, cores: &Cores, all: &mut Vec<Row>) -> Result<(), Error> {
    let uniform = |directory: &Path| Ok(Site { alpha: 0.0, ..Site::make(directory)? });
    load(
        "popular",
        &|directory| Site::with_sizes(directory, &[POPULAR], 0.0),
        options,
        cores,
        all,
    )?;
    load("unpopular", &uniform, options, cores, all)
}

fn load(
    name: &str,
    site: &dyn Fn(&Path) -> std::io::Result<Site>,
    options: &Options,
    cores: &Cores,
    all: &mut Vec<Row>,
) -> Result<(), Error> {
    let (_, ours) = ours();
    let mut runner = Runner::prepare(&options.setup, cores.clone(), site, !options.quick)?;
    let mut arms = Vec::new();
    let variants: [(&'static str, &[&str]); 2] = [
        ("phalanx", &["--max-queue-delay", "0"]),
        ("phalanx-pin", &["--max-queue-delay", "0", "--pin"]),
    ];
    for &processors in &options.processors {
        let mut add = |names: &[&'static str], plan: &Plan<'_>| {
            let on = options.server_cores(cores, processors);
            let added = runner.add(plan, processors, on)?;
            arms.extend(added.into_iter().map(|server| {
                let peer = names.iter().find(|name| **name == server);
                Arm { server: peer.copied().unwrap_or(names[0]), processors }
            }));
            Ok::<(), Error>(())
        };
        for (variant, arguments) in variants {
            if options.wants(variant) {
                let wants = |name: &str| name == ours;
                add(&[variant], &Plan { arguments, ..Plan::small(&wants, options.quick) })?;
            }
        }
        let wants = |name: &str| PEERS.contains(&name) && options.wants(name);
        let plan = Plan { features: Features::NONE, ..Plan::small(&wants, options.quick) };
        add(&PEERS, &plan)?;
    }
    for &connections in &options.connections {
        let what = format!("{name} files, {connections} connections");
        let turn = |arm: usize, round| {
            let timeout = options.slice + Duration::from_secs(5);
            let shot = Shot::closed(connections, round, timeout);
            let slice = runner.right_slice(arm, options.slice, shot)?;
            let Arm { server, processors } = &arms[arm];
            slice.report.add_events(&format!("{server}, {what}, processors: {processors}"));
            let (cpu_us, per_s, p99_us) = (slice.cpu_us(), slice.rps(), slice.p99_us());
            Ok(Slice { cpu_us, per_s, p99_us, noisy: slice.noisy })
        };
        let add = |slices: Vec<_>| all.extend(rows(name, connections, &arms, &slices));
        measure_setting(&what, (arms.len(), options.rounds), turn, add)?;
    }
    Ok(())
}
