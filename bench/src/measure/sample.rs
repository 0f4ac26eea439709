//! Sources of the fields of a row: values that are given, or medians of the rounds with their quartiles; and the slices and
//! simulated misses behind them.

use crate::measure::record::record;
use crate::measure::stats::{Disturbed, Spread, median, quartiles};
use crate::system::cachegrind::Counts;

record! {
    /// The slices of a row.
    #[derive(Default)]
    pub(crate) struct Sample {
        slices: usize => "slices", 0;
        /// Slices among these that were kept although other processes used the cores.
        noisy_slices: usize => "disturbed", 0;
        /// Quartiles of the slices.
        spread: Spread;
    }
}

/// Numbers of slices: the source of a row's [`Sample`], whose spread has the quartiles of the fields before it.
pub(crate) struct SliceCounts {
    pub(crate) slices: usize,
    pub(crate) noisy_slices: usize,
}

/// The numbers of these slices.
pub(crate) fn slice_counts<T: Disturbed>(all: &[T]) -> SliceCounts {
    let noisy_slices = all.iter().filter(|slice| slice.is_disturbed()).count();
    SliceCounts { slices: all.len(), noisy_slices }
}

impl Column<Sample> for SliceCounts {
    fn take(self, _: &str, spread: &mut Spread) -> Sample {
        let Self { slices, noisy_slices } = self;
        Sample { slices, noisy_slices, spread: std::mem::take(spread) }
    }
}

record! {
    /// Instructions and misses of simulated caches, outside of the kernel.
    #[derive(Copy)]
    pub(crate) struct Misses, fn new(each: Counts) {
        instructions: f64 => "instructions", 0 = each.instructions;
        /// Misses of a first-level instruction cache of 32 KiB in 8 ways.
        i1_misses: f64 => "I1 misses", 2 = each.i1;
        /// Misses of a first-level data cache of 32 KiB in 8 ways.
        d1_misses: f64 => "D1 misses", 2 = each.d1;
        /// Misses of a second-level cache in 8 ways, of 1 MiB unless the report has another size, by instructions.
        l2_instruction_misses: f64 => "L2 instr.", 2 = each.l2_instructions;
        /// The same by data.
        l2_data_misses: f64 => "L2 data", 2 = each.l2_data;
        /// Misses of the second level over its accesses, which are the misses of the first.
        l2_miss_rate: f64 => "L2 rate", 3 = each.l2() / (each.i1 + each.d1);
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
        Self::new(each)
    }
}

/// A source of the field `name` of a row.
pub(crate) trait Column<T> {
    /// The field. Its quartiles, if it has any, are added to `spread`.
    fn take(self, name: &str, spread: &mut Spread) -> T;
}

/// The value itself.
impl<T> Column<T> for T {
    fn take(self, _: &str, _: &mut Spread) -> T {
        self
    }
}

/// A figure of every round: the field is the median. Quartiles of figures that are not numbers are left out.
///
/// # Panics
/// If there are no rounds.
impl Column<f64> for Vec<f64> {
    fn take(self, name: &str, spread: &mut Spread) -> f64 {
        if self.iter().all(|value| value.is_finite()) {
            spread.insert(name.to_owned(), quartiles(&self));
        }
        median(&self)
    }
}

/// The same; `None` without rounds.
impl Column<Option<f64>> for Vec<f64> {
    fn take(self, name: &str, spread: &mut Spread) -> Option<f64> {
        (!self.is_empty()).then(|| Column::<f64>::take(self, name, spread))
    }
}

/// The quartiles of the fields before it.
pub(crate) struct Quartiles;

impl Column<Spread> for Quartiles {
    fn take(self, _: &str, spread: &mut Spread) -> Spread {
        std::mem::take(spread)
    }
}
