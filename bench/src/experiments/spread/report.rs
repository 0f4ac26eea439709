//! The report, as text and as JSON.

use super::scenes::{Moved, Scene};
use crate::measure::machine::Machine;
use crate::measure::partial::Partial;
use crate::measure::record::record;
use crate::measure::stats::{Spread, median, spread};
use crate::system::cores::{Cores, allowed};

record! {
    /// The report of `phalanx-bench spread`.
    pub struct Report {
        /// One per program and setting.
        rows: Vec<Row> | "µs per operation on two processors", 1;
        /// Moves of one partition.
        moves: Vec<MoveRow> | "a move, and an operation that touches the whole state", 0;
        /// Number of rounds.
        rounds: usize => "rounds", 0;
        /// The machine.
        machine: Option<Machine>;
        /// Progress, if the run was interrupted.
        partial: Option<Partial>;
        /// Whether this was a quick run, whose figures are meaningless.
        quick: bool;
    }
}

record! {
    /// A program without a mechanism and with it; medians of the rounds.
    pub struct Row {
        /// `balanced`, `affinity` or `moved`.
        scene: &'static str => "scene", 0;
        /// Microseconds of an operation, KiB of the state, or the share of the first processor's partitions.
        setting: f64 => "µs, KiB or share", 1;
        /// Microseconds per operation without the mechanism.
        plain_us: f64 => "without", 2;
        /// Microseconds per operation with it.
        with_us: f64 => "with", 2;
        /// Median of the rounds' ratios; above 1 the mechanism pays.
        plain_over_with: f64 => "without over with", 2;
        /// Quartiles of the rounds.
        spread: Spread;
    }
}

record! {
    /// Moves of a state; medians of the rounds.
    pub struct MoveRow {
        /// KiB of the state.
        state_kib: usize => "KiB", 0;
        /// Microseconds of a move, until the new owner has answered.
        move_us: f64 => "move µs", 1;
        /// Microseconds of an operation that touches the whole state.
        before_us: f64 => "operation before, µs", 1;
        /// The same as the first operation after the move.
        after_us: f64 => "the first after, µs", 1;
    }
}

impl Report {
    pub(super) fn new(rounds: usize, quick: bool) -> Self {
        let cores = allowed().map(|cores| Cores { server: cores.clone(), load: cores }).ok();
        Self {
            rows: Vec::new(),
            moves: Vec::new(),
            rounds,
            machine: cores.map(|cores| Machine::here(2, &cores)),
            partial: None,
            quick,
        }
    }

    /// Adds a program's times without and with its mechanism.
    pub(super) fn add(&mut self, scene: &Scene, times: &[[f64; 2]]) {
        let (scene, setting) = scene.setting();
        let each = |of: &dyn Fn(&[f64; 2]) -> f64| times.iter().map(of).collect::<Vec<_>>();
        let ratios = each(&|[plain, with]| plain / with);
        self.rows.push(Row {
            scene,
            setting,
            plain_us: median(&each(&|[plain, _]| *plain)),
            with_us: median(&each(&|[_, with]| *with)),
            plain_over_with: median(&ratios),
            spread: spread([("plain_over_with", ratios)]),
        });
    }

    pub(super) fn add_moves(&mut self, state_kib: usize, moves: &[Moved]) {
        let of = |of: fn(&Moved) -> f64| median(&moves.iter().map(of).collect::<Vec<_>>());
        self.moves.push(MoveRow {
            state_kib,
            move_us: of(|moved| moved.move_us),
            before_us: of(|moved| moved.before_us),
            after_us: of(|moved| moved.after_us),
        });
    }
}
