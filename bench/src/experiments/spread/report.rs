//! The report, as text and as JSON.

use super::scenes::Moved;
use crate::measure::{Quartiles, Rounds as _, Spread, record};

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
    pub(crate) struct Row, pub(super) fn new(scene: &'static str, setting: f64, times: &[[f64; 2]]) {
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
    pub(crate) struct MoveRow, pub(super) fn new(state_kib: usize, moves: &[Moved]) {
        state_kib: usize => "KiB", 0;
        /// Microseconds of a move, until the new owner has answered.
        move_us: f64 => "move µs", 1 = moves.median(|moved| moved.move_us);
        /// Microseconds of an operation that touches the whole state.
        before_us: f64 => "operation before, µs", 1 = moves.median(|moved| moved.before_us);
        /// The same as the first operation after the move.
        after_us: f64 => "the first after, µs", 1 = moves.median(|moved| moved.after_us);
    }
}
