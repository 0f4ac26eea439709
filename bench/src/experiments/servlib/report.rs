//! The report of `phalanx-bench servlib`.

use super::arm::Arm;
use crate::measure::{Quartiles, Rounds as _, Spread, record};

record! {
    /// Processor time of programs with threads, natively and under `phalanx threads`.
    pub(crate) struct Report {
        /// One per program and arm.
        rows: Vec<Row> | "processor time of the program per repetition or request", 1;
        /// Whether it was interrupted after some rows.
        interrupted: bool;
    }
}

record! {
    /// A program in one arm; medians of the rounds.
    pub(crate) struct Row, fn new(program: &str, arm: Arm, own: &[f64], native: &[f64]) {
        /// The program, and the unit of the cost.
        program: String => "program", 0 = program.to_owned();
        /// The way in which it runs.
        arm: &'static str => "arm", 0 = arm.name();
        /// Processor time.
        cost: f64 => "cost", 2 = own.to_vec();
        /// Median of the rounds' ratios.
        over_native: f64 => "over native", 2 = own.over(native, |cost| *cost);
        rounds: usize => "rounds", 0 = own.len();
        spread: Spread = Quartiles;
    }
}

impl Row {
    /// The rows of a program, one for each arm with the costs of its rounds.
    pub(super) fn of(program: &str, costs: &[Vec<f64>]) -> Vec<Self> {
        let row = |(arm, own): (_, &Vec<_>)| Self::new(program, arm, own, &costs[0]);
        Arm::ALL.into_iter().zip(costs).map(row).collect()
    }
}
