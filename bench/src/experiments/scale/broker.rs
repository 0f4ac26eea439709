//! The MQTT broker in several shapes of load.

use phalanx_mqtt::QoS;

use super::report::{Arm, Slice, rows};
use super::{Options, Row};
use crate::error::Error;
use crate::experiments::broker::server::{Home, Server, phalanx};
use crate::experiments::broker::shape::Setting;
use crate::experiments::broker::{self, Loaded, Shape};
use crate::measure::measure_setting;
use crate::runner::BROKERS;
use crate::system::{Bound, Cores};

/// The measured shapes, all without properties but the last.
const SHAPES: [(Shape, &str, QoS, usize); 5] = [
    (Shape::Pair, "pair", QoS::AtMostOnce, 0),
    (Shape::FanOut, "fan-out", QoS::AtMostOnce, 0),
    (Shape::FanIn, "fan-in", QoS::AtLeastOnce, 0),
    (Shape::Shared, "shared", QoS::AtLeastOnce, 0),
    (Shape::Filters, "filters", QoS::AtLeastOnce, 32),
];
/// Number of filters, in the shape with filters on message properties.
const FILTERS: usize = 20_000;

pub(super) fn run(options: &Options, cores: &Cores, all: &mut Vec<Row>) -> Result<(), Error> {
    let own = broker::Options {
        filters: if options.quick { 200 } else { FILTERS },
        slice: options.slice,
        ..broker::Options::of(options.setup.clone(), options.quick)
    };
    let directory = tempfile::Builder::new().prefix("phalanx-bench-").tempdir()?;
    let (mut arms, mut servers) = (Vec::new(), Vec::new());
    for &processors in &options.processors {
        let folder = directory.path().join(processors.to_string());
        std::fs::create_dir(&folder)?;
        let on = options.server_cores(cores, processors);
        let home = Home { directory: &folder, cores: on, processors };
        for name in ["phalanx", "phalanx-pin"] {
            if options.wants(name) {
                arms.push(Arm { server: name, processors });
                servers.push(phalanx(name, &own, &home)?);
            }
        }
        for peer in BROKERS.iter().filter(|peer| options.wants(peer.name())) {
            if let Some(first) = home.peer(peer)?.into_iter().next() {
                arms.push(Arm { server: peer.name(), processors });
                servers.push(first);
            }
        }
    }
    let _bound = Bound::to(&cores.load)?;
    for (shape, name, qos, properties) in SHAPES {
        let setting = Setting { shape, qos, properties };
        let joins = |(arm, server): (&Arm, &Server)| server.joins(setting).then_some(*arm);
        let taking_part: Vec<Arm> = arms.iter().zip(&servers).filter_map(joins).collect();
        let servers = servers.iter().filter(|server| server.joins(setting));
        let loads = servers.map(|server| Loaded::start(server, setting, &own));
        let mut loads = loads.collect::<Result<Vec<_>, Error>>()?;
        let turn = |arm: usize, _| {
            let Arm { server, processors } = taking_part[arm];
            let of = format!("{server}, {name}, processors: {processors}");
            let slice = loads[arm].slice(&of, cores, &own)?;
            Ok(Slice {
                cpu_us: 1e6 / slice.per_cpu_s,
                per_s: slice.per_s,
                p99_us: slice.p99_us,
                noisy: slice.noisy,
            })
        };
        let clients = shape.publishers() + shape.subscribers();
        let add = |slices: Vec<_>| all.extend(rows(name, clients, &taking_part, &slices));
        measure_setting(name, (taking_part.len(), options.rounds), turn, add)?;
        loads.into_iter().try_for_each(Loaded::leave)?;
    }
    Ok(())
}
