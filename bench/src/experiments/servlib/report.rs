//! The report of `phalanx-bench servlib`.

use super::arm::Arm;
use crate::measure::machine::Machine;
use crate::measure::record::record;
use crate::measure::stats::{Spread, median, spread};

record! {
    /// Processor time of programs with threads, natively and under `phalanx threads`.
    pub struct Report {
        /// One per program and arm.
        rows: Vec<Row> | "processor time of the program per repetition or request", 1;
        /// The machine and cores of the measurement.
        machine: Machine;
        /// Whether it was interrupted after some rows.
        interrupted: bool;
        /// Whether this was a quick run, whose figures are meaningless.
        quick: bool;
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
    /// The rows of a program, one for each arm of the complete rounds.
    pub(super) fn of(program: &str, rounds: &[[f64; Arm::ALL.len()]]) -> Vec<Self> {
        if rounds.is_empty() {
            return Vec::new();
        }
        let row = |(index, arm): (usize, Arm)| {
            let costs: Vec<f64> = rounds.iter().map(|round| round[index]).collect();
            let ratios: Vec<f64> = rounds.iter().map(|round| round[index] / round[0]).collect();
            Self {
                program: program.to_owned(),
                arm: arm.name(),
                cost: median(&costs),
                over_native: median(&ratios),
                rounds: rounds.len(),
                spread: spread([("cost", costs), ("over_native", ratios)]),
            }
        };
        Arm::ALL.into_iter().enumerate().map(row).collect()
    }
}
