//! `phalanx-bench spread`: balanced stages, cache affinity and moved partitions on two processors.
//!
//! The 2001 report (§5.1) has BalanceLoad and CacheSize as options of a stage, and no measurement of either. Each
//! mechanism is compared here with the same program without it, over the property that decides whether it pays. Read
//! `scenes` (the programs).

mod scenes;

use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::arguments::number;
use crate::error::Error;
use crate::measure::{Machine, Quartiles, Rounds as _, Run, Spread, measure_each, record};
use crate::system::cores::allowed;
use crate::system::{Cores, install_signal_handlers, interrupted};

use scenes::{Moved, Scene};

record! {
    /// The report of `phalanx-bench spread`.
    pub(crate) struct Report {
        /// One per program and setting.
        rows: Vec<Row> | "µs per operation on two processors", 1;
        /// Moves of one partition.
        moves: Vec<MoveRow> | "a move, and an operation that touches the whole state", 0;
        rounds: usize => "rounds", 0;
    }
}

record! {
    /// A program without a mechanism and with it; medians of the rounds.
    pub(crate) struct Row, fn new(scene: &'static str, setting: f64, times: &[[f64; 2]]) {
        /// `balanced`, `affinity` or `moved`.
        scene: &'static str => "scene", 0;
        /// Microseconds of an operation, KiB of the state, or the share of the first processor's partitions.
        setting: f64 => "µs, KiB or share", 1;
        /// Microseconds per operation without the mechanism.
        plain_us: f64 => "without", 2 = times.median(|[plain, _]| *plain);
        /// Microseconds per operation with it.
        with_us: f64 => "with", 2 = times.median(|[_, with]| *with);
        /// Median of the rounds' ratios; above 1 the mechanism pays.
        plain_over_with: f64 => "without over with", 2 = times.each(|[plain, with]| plain / with);
        spread: Spread = Quartiles;
    }
}

record! {
    /// Moves of a state; medians of the rounds.
    pub(crate) struct MoveRow, fn new(state_kib: usize, moves: &[Moved]) {
        state_kib: usize => "KiB", 0;
        /// Microseconds of a move, until the new owner has answered.
        move_us: f64 => "move µs", 1 = moves.median(|moved| moved.move_us);
        /// Microseconds of an operation that touches the whole state.
        before_us: f64 => "operation before, µs", 1 = moves.median(|moved| moved.before_us);
        /// The same as the first operation after the move.
        after_us: f64 => "the first after, µs", 1 = moves.median(|moved| moved.after_us);
    }
}

/// Measure what balanced stages, cache affinity and moved partitions save on two processors.
///
/// `balanced`: bursts of 256 operations on one processor, in a shared stage and in a balanced one, by the length of an
/// operation. `affinity`: operations of an exclusive stage from both processors that touch its whole state, without and
/// with cache affinity, by the size of the state. `moved`: operations from both processors on eight partitions, of which
/// four belong to each; then two of the first processor's partitions are moved to the second; by the share of the
/// operations on the partitions that the first processor owned. Programs with and without the mechanism take turns.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Rounds of each program
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Length of a measurement, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 60,
          value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000))]
    pub(crate) slice: u64,

    /// One short round: only checks that it runs
    #[arg(long, conflicts_with_all = ["rounds", "slice"])]
    pub(crate) quick: bool,
}

/// Sizes of the moved states, in KiB.
const MOVED_KIB: [usize; 4] = [1, 64, 1024, 8192];

/// A step of the measurement.
enum Setting {
    Scene(Scene),
    Move(usize),
}

/// Its result.
enum Measured {
    /// Microseconds of an operation without the mechanism and with it.
    Scene([f64; 2]),
    Move(scenes::Moved),
}

pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    let (rounds, slice) = match options.quick {
        true => (1, Duration::from_millis(3)),
        false => (options.rounds, Duration::from_millis(options.slice)),
    };
    install_signal_handlers()?;
    let work = scenes::Work::calibrate();
    let scenes = scenes::all().into_iter().map(Setting::Scene);
    let settings: Vec<_> = scenes.chain(MOVED_KIB.map(Setting::Move)).collect();
    let (measured, partial) = measure_each(&settings, rounds, |setting, round| {
        let measured = match setting {
            Setting::Scene(scene) => {
                eprintln!("{scene}, round {round} of {rounds}");
                let [plain, with] = [false, true].map(|with| scene.run(with, work, slice));
                Measured::Scene([plain?, with?])
            }
            Setting::Move(kib) => {
                eprintln!("moves of {kib} KiB, round {round} of {rounds}");
                Measured::Move(scenes::moves(*kib, slice)?)
            }
        };
        interrupted()?;
        Ok(measured)
    })?;
    let mut report = Report { rows: Vec::new(), moves: Vec::new(), rounds };
    for (setting, measured) in settings.iter().zip(measured) {
        let (mut times, mut moves) = (Vec::new(), Vec::new());
        for measured in measured {
            match measured {
                Measured::Scene(both) => times.push(both),
                Measured::Move(moved) => moves.push(moved),
            }
        }
        match setting {
            Setting::Scene(scene) => {
                let (scene, value) = scene.setting();
                report.rows.push(Row::new(scene, value, &times));
            }
            Setting::Move(kib) => report.moves.push(MoveRow::new(*kib, &moves)),
        }
    }
    let cores = Cores { server: allowed()?, load: allowed()? };
    Ok(Run::new(report, Machine::here(2, &cores), partial, options.quick))
}
