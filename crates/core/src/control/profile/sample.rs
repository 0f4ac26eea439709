//! The observations of one interval, from which the guide decides.

use super::indicators::Indicators;
use super::mixes::Measured;

/// The observations of one interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// The traffic.
    pub indicators: Indicators,
    /// The cost of the setting in force; `None` if there were too few operations to measure it.
    pub measured: Option<Measured>,
    /// The total load of all processors, in thousandths of one processor. It is used if there were too few operations.
    pub load: u32,
    /// Whether the active processors are saturated, without those that additional processors cannot relieve.
    pub is_saturated: bool,
}
