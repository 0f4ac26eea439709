//! The report of `phalanx-bench servlib`.

use super::arm::Arm;
use crate::measure::record::record;
use crate::measure::stats::{Rounds as _, Spread, median, spread};

record! {
    /// Processor time of programs with threads, natively and under `phalanx threads`.
    pub struct Report {
        /// One per program and arm.
        rows: Vec<Row> | "processor time of the program per repetition or request", 1;
        /// Whether it was interrupted after some rows.
        interrupted: bool;
    }
}

record! {
    /// A program in one arm; medians of the rounds.
    pub struct Row {
        /// The program, and the unit of the cost.
        program: String => "program", 0;
        /// The way in which it runs.
        arm: &'static str => "arm", 0;
        /// Processor time.
        cost: f64 => "cost", 2;
        /// Median of the rounds' ratios.
        over_native: f64 => "over native", 2;
        /// Number of rounds.
        rounds: usize => "rounds", 0;
        /// Quartiles of the rounds.
        spread: Spread;
    }
}

impl Row {
    /// The rows of a program, one for each arm with the costs of its rounds.
    pub(super) fn of(program: &str, costs: &[Vec<f64>]) -> Vec<Self> {
        let row = |(arm, own): (Arm, &Vec<f64>)| {
            let ratios = own.over(&costs[0], |cost| *cost);
            Self {
                program: program.to_owned(),
                arm: arm.name(),
                cost: median(own),
                over_native: median(&ratios),
                rounds: own.len(),
                spread: spread([("cost", own.clone()), ("over_native", ratios)]),
            }
        };
        Arm::ALL.into_iter().zip(costs).map(row).collect()
    }
}
