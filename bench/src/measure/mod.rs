//! Measurements on a noisy machine: clocks, rounds, statistics and reports.

pub(crate) mod clock;
pub(crate) mod interference;
pub(crate) mod machine;
pub(crate) mod partial;
pub(crate) mod record;
pub(crate) mod rounds;
pub(crate) mod run;
pub(crate) mod sample;
pub(crate) mod stats;
pub(crate) mod stretch;

pub(crate) use clock::{Clock, ParkingClock, thread_time};
pub(crate) use interference::{CpuTimes, MAX_FOREIGN_SHARE};
pub(crate) use machine::Machine;
pub(crate) use partial::{
    Arms, Partial, by_arm, measure_arms, measure_each, measure_more, measure_setting,
};
pub(crate) use record::record;
pub(crate) use rounds::{NoiseProbe, Taken, is_noisy};
pub(crate) use run::{EventRow, Run};
pub(crate) use sample::{Misses, Quartiles, Sample, SliceCounts, slice_counts};
pub(crate) use stats::{Disturbed, Rounds, Spread, maximum, median, minimum, undisturbed};
pub(crate) use stretch::{Stretch, StretchRow};
