//! The report, as text and as JSON.

use super::scenes::{Moved, Scene};
use crate::measure::record::record;
use crate::measure::stats::{Rounds as _, Spread, median, spread};

record! {
    /// The report of `phalanx-bench spread`.
    pub struct Report {
        /// One per program and setting.
        rows: Vec<Row> | "µs per operation on two processors", 1;
        /// Moves of one partition.
        moves: Vec<MoveRow> | "a move, and an operation that touches the whole state", 0;
        /// Number of rounds.
        rounds: usize => "rounds", 0;
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
    /// Adds a program's times without and with its mechanism.
    pub(super) fn add(&mut self, scene: &Scene, times: &[[f64; 2]]) {
        let (scene, setting) = scene.setting();
        let ratios = times.each(|[plain, with]| plain / with);
        self.rows.push(Row {
            scene,
            setting,
            plain_us: times.median(|[plain, _]| *plain),
            with_us: times.median(|[_, with]| *with),
            plain_over_with: median(&ratios),
            spread: spread([("plain_over_with", ratios)]),
        });
    }

    pub(super) fn add_moves(&mut self, state_kib: usize, moves: &[Moved]) {
        self.moves.push(MoveRow {
            state_kib,
            move_us: moves.median(|moved| moved.move_us),
            before_us: moves.median(|moved| moved.before_us),
            after_us: moves.median(|moved| moved.after_us),
        });
    }
}
