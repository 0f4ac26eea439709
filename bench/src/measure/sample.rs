//! The slices and the simulated misses behind the figures of a row.

use crate::measure::record::record;
use crate::measure::stats::Spread;
use crate::system::cachegrind::Counts;

record! {
    /// The slices of a row.
    #[derive(Default)]
    pub struct Sample {
        /// Number of measured slices.
        slices: usize => "slices", 0;
        /// Slices among these that were kept although other processes used the cores.
        noisy_slices: usize => "disturbed", 0;
        /// Quartiles of the slices.
        spread: Spread;
    }
}

record! {
    /// Instructions and misses of simulated caches, outside of the kernel.
    #[derive(Copy)]
    pub struct Misses {
        /// Instructions.
        instructions: f64 => "instructions", 0;
        /// Misses of a first-level instruction cache of 32 KiB in 8 ways.
        i1_misses: f64 => "I1 misses", 2;
        /// Misses of a first-level data cache of 32 KiB in 8 ways.
        d1_misses: f64 => "D1 misses", 2;
        /// Misses of a second-level cache in 8 ways, of 1 MiB unless the report has another size, by instructions.
        l2_instruction_misses: f64 => "L2 instr.", 2;
        /// The same by data.
        l2_data_misses: f64 => "L2 data", 2;
        /// Misses of the second level over its accesses, which are the misses of the first.
        l2_miss_rate: f64 => "L2 rate", 3;
    }
}

impl Misses {
    /// Second-level misses by instructions and data.
    pub(crate) fn l2(&self) -> f64 {
        self.l2_instruction_misses + self.l2_data_misses
    }
}

impl From<Counts> for Misses {
    fn from(each: Counts) -> Self {
        Self {
            instructions: each.instructions,
            i1_misses: each.i1,
            d1_misses: each.d1,
            l2_instruction_misses: each.l2_instructions,
            l2_data_misses: each.l2_data,
            l2_miss_rate: each.l2() / (each.i1 + each.d1),
        }
    }
}
